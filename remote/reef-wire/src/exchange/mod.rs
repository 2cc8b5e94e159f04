//! Threads of one end that share its connection.
//!
//! *In*: frames of any thread, and threads that wait. *Out*: one writing thread at a time, and one
//! reading thread at a time. *Invariant*: frames leave in the order in which they were pushed; what
//! has been pushed is written without another call; while a thread waits, some thread reads.
//!
//! Both protocols are compiled a second time against loom, in `loom/`.

pub(crate) mod reader;
pub(crate) mod sync;
pub(crate) mod writer;
