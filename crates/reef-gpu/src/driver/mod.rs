//! One open device: every call of its driver goes through here.
//!
//! In: what the vendor's part can do. Out: handles that give back what they stand for when they are
//! dropped. Invariant: nothing is given back that work on the device may still use: after a stream
//! was abandoned, nothing is given back at all.

pub(crate) mod buffer;
pub(crate) mod call_tracker;
pub(crate) mod clock;
pub(crate) mod context;
pub(crate) mod control_stream;
pub(crate) mod event;
pub(crate) mod handles;
pub(crate) mod scratch;
pub(crate) mod signal;
pub(crate) mod signal_pool;
pub(crate) mod stream;
pub(crate) mod tick_rate;
pub(crate) mod timeout;
