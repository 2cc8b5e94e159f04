//! Streams, and the thread that runs what is in them.
//!
//! *In*: operations, from the functions in `api`. *Out*: their effects on memory. *Invariant*: each
//! operation takes effect once, after all that it depends on.

pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod device_memory;
pub(crate) mod graph;
pub(crate) mod graph_memory;
pub(crate) mod op;
pub(crate) mod pools;
pub(crate) mod run;
pub(crate) mod world;
