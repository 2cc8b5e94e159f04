//! What `proto/inference.proto` says.

#![allow(missing_docs, unreachable_pub, clippy::all)] // it is generated

tonic::include_proto!("inference");

/// What `proto/health.proto` says.
pub(crate) mod health {
    tonic::include_proto!("grpc.health.v1");
}

/// Descriptors of both files as they are written, encoded: what clients speak.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/messages.bin"));
