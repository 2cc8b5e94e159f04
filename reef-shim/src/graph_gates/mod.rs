//! Gates inside of graphs that are built node by node.
//!
//! *In*: a best-effort program's graph, at its instantiation. *Out*: a clone with gates in front of
//! some of its kernels, which is instantiated in its place, and what is needed to translate the
//! program's nodes when it updates the result. *Invariant*: the program's graph and its nodes stay
//! as they are; the places of gates in an executable graph stay where they were, whatever it is
//! updated with; a graph that has a node which can't be cloned or isn't understood is instantiated
//! as it is, and counted.

mod calls;
pub(crate) mod execs;
pub(crate) mod insert;
pub(crate) mod memory;
pub(crate) mod positions;
pub(crate) mod shape;
