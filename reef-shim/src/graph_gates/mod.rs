//! Gates inside graphs that are built node by node.
//!
//! *In*: a best-effort program's graph, at its instantiation. *Out*: a clone with gates before some
//! of its kernels, which is instantiated in its place, and a translation of the program's nodes for
//! updates. *Invariant*: the program's graph and its nodes stay as they are; the positions of gates
//! in an executable graph stay the same through all updates; a graph with a node that can't be
//! cloned or isn't known is instantiated as it is, and counted.

mod calls;
pub(crate) mod execs;
pub(crate) mod insert;
pub(crate) mod memory;
pub(crate) mod positions;
pub(crate) mod shape;
