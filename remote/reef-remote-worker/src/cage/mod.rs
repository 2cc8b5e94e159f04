//! Walls around a worker: its client may be anybody, and has the process in its hands if the driver
//! has a hole.
//!
//! *In*: a process of the server's, before it has heard a word of its client. *Out*: one that has
//! no descriptors but its own, dumps no core, starts no program and gets no new right.
//! *Invariant*: nothing here can be undone by the process.

pub(crate) mod close;
pub(crate) mod environment;
pub(crate) mod limits;
mod syscalls;
pub(crate) mod users;
