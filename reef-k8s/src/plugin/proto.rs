//! What `proto/deviceplugin.proto` says.

#![allow(missing_docs, unreachable_pub, dead_code, clippy::all)] // it is generated; clients are the tests'

tonic::include_proto!("v1beta1");
