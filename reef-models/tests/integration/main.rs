//! Tests of the library from outside. `memory.rs` is a program of its own, because it counts the
//! allocations of its process.

mod arena;
mod bad_graphs;
mod bad_models;
mod eight_bits;
mod format;
mod golden;
#[path = "../handmade/mod.rs"]
mod handmade;
mod network;
mod networks;
mod onnx;
mod onnx_bad;
mod onnx_domains;
mod onnx_external;
mod onnx_odd;
mod onnx_open;
mod onnx_steps;
mod published;
