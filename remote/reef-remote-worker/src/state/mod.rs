//! State that the worker's threads share.
//!
//! *In*: handles that the driver makes, memory for copies, calls that block. *Out*: replies.
//! *Invariant*: an id names one object of one kind until it has ended, and then nothing.

pub(crate) mod allocations;
pub(crate) mod frees;
pub(crate) mod handles;
pub(crate) mod host_calls;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod printed;
pub(crate) mod queue;
pub(crate) mod quota;
pub(crate) mod shared;
pub(crate) mod staging;
pub(crate) mod uses;
pub(crate) mod waiters;
pub(crate) mod window;
