//! The standard protocol over gRPC.

mod decompress;
mod describe;
mod flat;
mod health;
mod infer;
mod memory;
mod proto;
pub(crate) mod raw_message;
mod repository;
pub(crate) mod serve;
mod service;
mod settings;
