//! The order of work: streams, events, captures, graphs.
//!
//! *In*: handles, which are the driver's. *Out*: the driver's calls. *Invariant*: the default
//! stream is the one that the function's name means.

mod captures;
mod events;
mod graphs;
mod kernel_nodes;
mod memory_nodes;
mod streams;
