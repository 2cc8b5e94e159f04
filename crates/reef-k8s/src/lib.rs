//! REEF's classes as resources of a Kubernetes node.
//!
//! *In*: what the node has ([`Node`]), and the calls of its kubelet. *Out*: a device plugin
//! (v1beta1) with a resource for each class, `reef.dev/rt` and `reef.dev/be` ([`run`]), or a driver
//! of dynamic resource allocation (v1), to which class, memory and share are one claim
//! ([`run_claims`]); and what a container is given: variables, mounts, device nodes. *Invariant*:
//! what a container is given depends on the options and on its device ids or its claim alone, so
//! asking twice gives the same.
//!
//! To the device plugin the class is the resource's name, so no pod has to be looked up while one
//! is allocated. A driver reads claims from the API server and keeps what it has prepared on disk.

mod config;
mod dra;
mod error;
mod node;
mod plugin;
mod prefer;
mod resource;
mod shutdown;
mod socket;
#[cfg(test)]
mod tests;

pub use config::{Config, Pace};
pub use dra::api::client::Server;
pub use dra::config::{ClaimsConfig, SuspendedMemory};
pub use dra::run::run_claims;
pub use error::{Error, Result};
pub use node::dmem::ContainerLimit;
pub use node::paths::Node;
pub use plugin::run::{run, serve};
pub use reef_guest::page::Class;
pub use resource::Resource;
