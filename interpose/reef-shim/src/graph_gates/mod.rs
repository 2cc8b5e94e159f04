//! Gates inside graphs that are built node by node, and long kernels of any graph in slices.
//!
//! *In*: a best-effort program's graph, at its instantiation. *Out*: a clone with gates before some
//! of its kernels and slices for others, which is instantiated in its place, and a translation of
//! the program's nodes for updates. *Invariant*: the program's graph and its nodes stay; the
//! positions of gates and slices in an executable graph are the same through all updates; a graph
//! with a node that can't be cloned or isn't known is instantiated as it is, and counted.
//!
//! 1. `instantiate` reads the `shape` of a graph. `positions` says where it has gates and slices,
//!    and `insert` puts them into a clone. What kernels may launch is a clone without any.
//! 2. `execs` keeps the clone as long as the executable graph, whose nodes are named by it.
//! 3. `update` translates the program's nodes. Parameters go to all slices of a kernel (`slices`).
//!    If it is another kernel or size, one node is the whole kernel, and the others do nothing.
//!    If one of them refuses a change, it is undone, or `backing` refuses launches with the error.

pub(crate) mod backing;
mod calls;
mod execs;
mod insert;
pub(crate) mod instantiate;
pub(crate) mod kernel_nodes;
mod memory;
mod positions;
pub(crate) mod shape;
mod slices;
pub(crate) mod update;
