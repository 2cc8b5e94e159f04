//! The cluster's API server, as far as a driver needs it.
//!
//! *In*: a method, a path, an object. *Out*: the answer's status and object. *Invariant*: a call
//! ends within a time.

pub(crate) mod call;
pub(crate) mod client;
