//! Which devices a model is on, and which of its replicas serves a request.
//!
//! - **In**: a model with what its description says of devices, and the devices with what they have
//!   to do.
//! - **Out**: a replica of the model on each device that it is to be on.
//! - **Invariant**: a device has at most one replica of a version, and no lost device gets one. A
//!   model with one replica costs a request nothing: nothing is compared.

mod choice;
mod load_thread;
pub(crate) mod placer;
pub(crate) mod replicas;
pub(crate) mod unavailable;
