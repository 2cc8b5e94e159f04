//! Traits that a backend implements, and the commands that it is given.
//!
//! *In*: [commands](command), which only name a backend's types. *Out*: positions that have
//! finished, and after a preemption what is left. *Invariant*: a queue runs its commands in order,
//! and each block takes effect once, on whichever queue it is launched with the same checkpoint.

pub(crate) mod blocks;
pub(crate) mod command;
pub(crate) mod device;
pub(crate) mod error;
pub(crate) mod host_memory;
pub(crate) mod info;
pub(crate) mod launch_builder;
pub(crate) mod preemptor;
pub(crate) mod queue;
pub(crate) mod resources;
pub(crate) mod stopwatch;
pub(crate) mod types;
pub mod words;
