//! The standard protocol over gRPC.

mod describe;
mod first_request;
mod infer;
mod memory;
mod proto;
mod repository;
pub(crate) mod serve;
mod service;
