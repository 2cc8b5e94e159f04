//! The standard protocol over gRPC.

mod describe;
mod health;
mod infer;
mod memory;
mod proto;
mod repository;
pub(crate) mod serve;
mod service;
mod settings;
pub(crate) mod undecoded;
mod unpacked;
