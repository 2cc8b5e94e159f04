//! Inferences, as gRPC and HTTP have them in common.
//!
//! - **In**: a [`request`], as one of the protocols read it.
//! - **Out**: its [`response`], for the same protocol to write.
//! - **Invariant**: a request is checked whole before it is queued, so that what is wrong with it
//!   is said at once.

mod classes;
mod inference;
pub(crate) mod request;
pub(crate) mod response;
