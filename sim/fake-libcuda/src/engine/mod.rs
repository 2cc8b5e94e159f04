//! Streams, and the thread that runs what is in them.
//!
//! *In*: operations, from the functions in `api`. *Out*: their effects on memory. *Invariant*: each
//! operation takes effect once, after all that it depends on.

pub(crate) mod blocks;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod context;
mod contexts;
pub(crate) mod copy;
pub(crate) mod device_memory;
pub(crate) mod exports;
pub(crate) mod graph;
mod graph_allocations;
mod graph_memory;
pub(crate) mod lock;
pub(crate) mod op;
mod pieces;
pub(crate) mod pool;
mod pools;
pub(crate) mod run;
pub(crate) mod settings;
pub(crate) mod shared_blocks;
pub(crate) mod world;
