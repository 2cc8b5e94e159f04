//! Generated from `proto/dra.proto` and `proto/pluginregistration.proto`.

// It is generated, and only tests use its clients.
#![allow(missing_docs, unreachable_pub, dead_code, clippy::all)]

pub(super) mod v1 {
    tonic::include_proto!("k8s.io.kubelet.pkg.apis.dra.v1");
}

pub(super) mod registration {
    tonic::include_proto!("pluginregistration");
}
