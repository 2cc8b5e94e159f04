//! Inferences, common to gRPC and HTTP.
//!
//! - **In**: a [`request`], read by one of the protocols.
//! - **Out**: its [`response`], to be written by the same protocol.
//! - **Invariant**: a request is checked completely before it is queued, so errors are reported at
//!   once.

mod classes;
mod inference;
mod process;
pub(crate) mod request;
pub(crate) mod response;
mod sequence;
