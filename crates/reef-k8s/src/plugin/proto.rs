//! Generated from `proto/deviceplugin.proto`.

// It is generated, and only tests use its clients.
#![allow(missing_docs, unreachable_pub, dead_code, clippy::all)]

tonic::include_proto!("v1beta1");
