//! Tests of the files in `deploy`, and a fake node for the tests of all folders.

pub(crate) mod manifests;
pub(crate) mod node;
