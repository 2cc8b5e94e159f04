//! Formulas in which each step is made of the one before and of an input or a number: sums with a
//! bias, a scale and a residual; GELU; what comes behind a normalisation.
//!
//! In: values, and what the inputs are for them. Out: the same values, changed in place. Steps stay
//! in registers, so it needs no memory between them.
//!
//! Invariant: each output has the bits that its steps give one after the other.

pub(super) mod find;
#[cfg(target_arch = "x86_64")]
mod registers;
pub(super) mod steps;
