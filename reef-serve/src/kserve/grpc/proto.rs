//! What `proto/inference.proto` says.

#![allow(missing_docs, unreachable_pub, clippy::all)] // it is generated

tonic::include_proto!("inference");

/// What `proto/health.proto` says.
pub(crate) mod health {
    tonic::include_proto!("grpc.health.v1");
}
