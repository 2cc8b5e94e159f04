//! The state of work on a device: what is written of it, and how it comes back.
//!
//! *In*: a task with its memory, and a parked queue that runs it. *Out*: a file; or memory with its
//! contents, and a queue to continue. *Invariant*: memory is written only after the task was found
//! to be the one of the snapshot.

pub(crate) mod restore;
pub(crate) mod work;
pub(crate) mod write;
