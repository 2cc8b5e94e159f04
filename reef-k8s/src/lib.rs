//! REEF's classes as resources of a Kubernetes node.
//!
//! *In*: a [`Config`], the GPUs of the node, and the calls of its kubelet. *Out*: a device plugin (v1beta1) with a
//! resource for each class, `reef.dev/rt` and `reef.dev/be`, and what a container is given: variables, mounts, device
//! nodes. *Invariant*: what a container is given depends on the configuration and on its device ids alone, so asking
//! twice gives the same, and nothing is kept that a restart could lose.
//!
//! The class is the resource's name, so no pod has to be looked up while one is allocated.

mod cdi;
mod config;
mod edits;
mod error;
mod gpu;
#[cfg(test)]
mod made_up;
#[cfg(test)]
mod manifests;
mod node;
mod plugin;
mod prefer;
mod resource;
mod socket;
mod state;

pub use config::{Config, Pace};
pub use error::{Error, Result};
pub use node::Node;
pub use plugin::run::{run, serve};
pub use reef_guest::page::Class;
pub use resource::Resource;
