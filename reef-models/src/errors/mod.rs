//! What can be wrong, said once: the file, the place in it, the value.
//!
//! In: what a reader, a check or a device found. Out: one [`Error`] for all of the crate.
//!
//! Invariant: an error can be read without the code at hand.

pub(crate) mod error;
pub(crate) mod param_problem;

pub use error::{Error, Result};
