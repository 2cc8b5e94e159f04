//! Gates inside graphs that are built node by node, and long kernels of any graph in slices.
//!
//! *In*: a best-effort program's graph, at its instantiation. *Out*: a clone with gates before some
//! of its kernels and slices for others, which is instantiated in its place, and a translation of
//! the program's nodes for updates. *Invariant*: the program's graph and its nodes stay as they are; the positions of gates
//! in an executable graph stay the same through all updates; a graph with a node that can't be
//! cloned or isn't known is instantiated as it is, and counted.

pub(crate) mod backing;
mod calls;
mod execs;
mod insert;
pub(crate) mod instantiate;
mod memory;
mod positions;
pub(crate) mod shape;
mod slices;
pub(crate) mod update;
