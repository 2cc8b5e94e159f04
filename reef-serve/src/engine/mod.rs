//! The devices, as the daemon sees them: models are loaded on them, instances run their requests.
//!
//! ```text
//! Node ── Engine ── load ──► DeviceModel (weights) ── instance(class) ──► Instance (activations and a queue of its own)
//! ```
//!
//! - **In**: models with their weights, tensors of one request at a time for each instance.
//! - **Out**: outputs, and what the dispatcher counted and traced.
//! - **Invariant**: one virtual call per request leads from here to code that is compiled for the
//!   device; all scheduling is the [`Dispatcher`](reef::Dispatcher)'s.

pub(crate) mod api;
mod busy;
mod constants;
pub(crate) mod device;
pub(crate) mod instance;
pub(crate) mod instance_count;
mod names;
pub(crate) mod node;
pub(crate) mod shared;
