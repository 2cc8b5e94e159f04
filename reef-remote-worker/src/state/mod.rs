//! What the worker's threads share.
//!
//! *In*: handles that the driver makes, memory for copies, calls that block. *Out*: replies.
//! *Invariant*: an id names one object of one kind until it has ended, and then nothing.

mod handles;
mod host_calls;
mod shared;
mod staging;
mod waiters;

pub(crate) use host_calls::HostCalls;
pub(crate) use shared::{Request, Shared, lock};
pub(crate) use staging::Block;
