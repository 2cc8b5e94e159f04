//! Errors of the crate. Each says the file, the place in it, and the value.
//!
//! In: what a reader, a check or a device found. Out: one [`Error`] for all of the crate.
//!
//! Invariant: an error can be read without the code at hand.

pub(crate) mod error;
pub(crate) mod param_problem;

pub use error::{Error, Result};
