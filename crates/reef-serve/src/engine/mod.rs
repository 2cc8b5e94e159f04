//! Devices of the daemon: models are loaded on them, instances run requests.
//!
//! ```text
//! Node ── Engine ── load ──► DeviceModel (weights) ── instance(class) ──► Instance (activations)
//! ```
//!
//! - **In**: models with their weights, tensors of one request at a time for each instance.
//! - **Out**: outputs, and the dispatcher's counters and traces.
//! - **Invariant**: one virtual call per request leads from here to code that is compiled for the
//!   device; the [`Dispatcher`](reef::Dispatcher) does all scheduling.

pub(crate) mod api;
mod busy;
pub(crate) mod call;
mod constants;
pub(crate) mod device;
pub(crate) mod instance;
pub(crate) mod instance_count;
mod last_answer;
mod names;
pub(crate) mod node;
pub(crate) mod shared;
