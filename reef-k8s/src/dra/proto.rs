//! What `proto/dra.proto` and `proto/pluginregistration.proto` say.

#![allow(missing_docs, unreachable_pub, dead_code, clippy::all)] // it is generated; clients are the tests'

pub(super) mod v1 {
    tonic::include_proto!("k8s.io.kubelet.pkg.apis.dra.v1");
}

pub(super) mod registration {
    tonic::include_proto!("pluginregistration");
}
