//! How much memory this process may still take, and what it has.
//!
//! *In*: what the environment says of limits; allocations and their ends. *Out*: whether an
//! allocation may be made. *Invariant*: nothing is allocated that isn't in the books of the
//! process's job first; what can't be read or joined ends in refused allocations and one line on
//! stderr; nothing here is on the way of a launch.

pub(crate) mod charges;
pub(crate) mod contexts;
pub(crate) mod device;
pub(crate) mod graphs;
pub(crate) mod image;
pub(crate) mod memory_handles;
pub(crate) mod pending;
pub(crate) mod pools;
pub(crate) mod refusal;
pub(crate) mod sizes;
mod slot_thread;
