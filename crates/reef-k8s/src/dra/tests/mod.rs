//! The plugin for claims against a kubelet and an API server of the tests' own.

mod client;
mod cluster;
mod kubelet;
mod prepare;
mod random;
mod refusals;
mod restarts;
mod slices;
mod suspended;
