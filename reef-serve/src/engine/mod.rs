//! The device, as the daemon sees it: models are loaded on it, lanes run their requests.
//!
//! Everything above is the same for every backend; one virtual call per request leads from here to code
//! that is compiled for the device. All scheduling is the [`Dispatcher`](reef::Dispatcher)'s.
//!
//! ```text
//! Engine ── load ──► Loaded (weights) ── lane(class) ──► Lane (an instance and a queue of its own)
//! ```

pub(crate) mod api;
pub(crate) mod device;
pub(crate) mod instance;
