//! Memory limits of this process, and the memory that it has.
//!
//! *In*: limits from the environment; allocations and their ends. *Out*: whether an allocation may
//! be made. *Invariant*: memory is reserved in the account of the process's job before it is
//! allocated; an invalid limit or accounts file ends in refused allocations and one line on stderr;
//! nothing here is on the path of a launch.

pub(crate) mod charges;
pub(crate) mod contexts;
pub(crate) mod device;
pub(crate) mod exported;
pub(crate) mod exporters;
pub(crate) mod image;
pub(crate) mod imports;
pub(crate) mod libraries;
pub(crate) mod memory_handles;
pub(crate) mod pending;
pub(crate) mod pools;
pub(crate) mod refusal;
pub(crate) mod shared_blocks;
pub(crate) mod sizes;
mod slot_thread;
