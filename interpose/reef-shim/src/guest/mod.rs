//! This process as a guest: its class, and the devices that it has joined.
//!
//! *In*: the environment, read once; contexts of launches. *Out*: for each context the page to wait
//! on, at the device's address. *Invariant*: a launch waits for the daemon once per device, for a
//! bounded time; a daemon that is late, or that returns, is joined by a thread of ours; after any
//! failure a context's calls are passed on, or refused if their time is limited.

mod absence;
pub(crate) mod attach;
pub(crate) mod capture;
pub(crate) mod device;
pub(crate) mod find;
pub(crate) mod iteration;
mod link;
pub(crate) mod membership;
pub(crate) mod meter;
pub(crate) mod phase;
mod progress;
pub(crate) mod tree;
pub(crate) mod ungated_captures;
pub(crate) mod watchdog;
