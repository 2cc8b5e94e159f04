//! Protocols between units and clients, one tree for this crate and for its loom models
//! (`crates/reef-cpu/loom`).
//!
//! *In*: messages for the state behind the device's lock; units that find nothing to do. *Out*:
//! messages taken in, by the thread that has the lock; units that were woken; blocks of a kernel,
//! one by one. *Invariant*: no message, no wake-up and no block is lost, no block is given out
//! twice, and no sender of a message waits for the lock.

pub(crate) mod claims;
pub(crate) mod combined;
pub(crate) mod primitives;
pub(crate) mod sleepers;
