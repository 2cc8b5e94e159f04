//! Messages of `proto/inference.proto`.

#![allow(missing_docs, unreachable_pub, clippy::all)] // it is generated

tonic::include_proto!("inference");

/// Messages of `proto/health.proto`.
pub(crate) mod health {
    tonic::include_proto!("grpc.health.v1");
}

/// Encoded descriptors of both files, for the reflection service.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/messages.bin"));
