//! Dynamic resource allocation: memory, share and class as one claim of a pod.
//!
//! *In*: the kubelet's calls for claims, the claims as the API server has them, the GPUs of the
//! node. *Out*: what of each GPU can be had, as a ResourceSlice; a CDI file for each prepared
//! claim. *Invariant*: a claim is in the checkpoint before a container can use it, and its CDI file
//! depends on the checkpoint and the options alone: preparing twice gives the same, also after the
//! plugin or the machine was started again.

pub(crate) mod api;
mod checkpoint;
mod claim;
mod claim_file;
pub(crate) mod config;
mod driver;
mod proto;
mod quantity;
mod registration;
pub(crate) mod run;
mod settings;
mod slices;
mod suspended;
#[cfg(test)]
mod tests;
