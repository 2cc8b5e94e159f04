//! Placement: the devices of a model, and the replica for a request.
//!
//! - **In**: a model with the devices of its description, and the devices with their load.
//! - **Out**: a replica of the model on each chosen device.
//! - **Invariant**: a device has at most one replica of a version, and a lost device gets none. A
//!   model with one replica costs a request no comparison.

mod choice;
pub(super) mod load_thread;
pub(crate) mod placer;
pub(crate) mod replicas;
pub(crate) mod unavailable;
