//! This process as a guest: what it was told to be, and which devices it has joined.
//!
//! *In*: the environment, once; contexts that launches come from. *Out*: for each context the page
//! to wait on, in the device's own address. *Invariant*: a launch waits for the daemon once per
//! device, and not long; a daemon that is late, or that comes back, is joined by a thread of ours;
//! whatever fails leaves the context alone, and its calls are passed on.

pub(crate) mod attach;
pub(crate) mod capture;
pub(crate) mod device;
pub(crate) mod find;
pub(crate) mod keeper;
mod link;
pub(crate) mod membership;
pub(crate) mod meter;
mod progress;
pub(crate) mod tree;
pub(crate) mod ungated_captures;
