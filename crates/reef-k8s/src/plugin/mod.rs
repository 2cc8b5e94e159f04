//! The device plugin: what the kubelet asks, and how it is found again.
//!
//! *In*: the kubelet's calls at a socket of each resource; its own socket, which comes and goes as
//! it restarts; GPUs and daemon, polled every few seconds. *Out*: registrations, lists of devices
//! with their health, answers. *Invariant*: at most one plugin of a node has a resource's socket. A
//! later plugin takes it over, and the earlier one ends with an error.

mod life;
mod proto;
pub(crate) mod run;
mod service;
#[cfg(test)]
mod tests;
