//! State of the program that is known here.
//!
//! *In*: results of calls. *Out*: answers without a message. *Invariant*: an answer from here is
//! the one that the server's driver would give.

pub(crate) mod functions;
pub(crate) mod host_functions;
pub(crate) mod host_memory;
pub(crate) mod leases;
pub(crate) mod lock;
pub(crate) mod thread;
