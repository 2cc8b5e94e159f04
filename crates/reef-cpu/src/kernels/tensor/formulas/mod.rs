//! Formulas and folds of singles, by vectors.
//!
//! In: an operation that was checked, its inputs as slices, and a range of outputs. Out: these
//! outputs. A formula's terms are made one after the other, of a tile of outputs or of a row at a
//! time; what is the same for all of them is made once.
//!
//! Invariant: an output doesn't depend on the block that makes it.

mod access_pattern;
mod chain;
pub(super) mod finish;
pub(super) mod folds;
pub(super) mod formula;
mod gelu;
pub(super) mod row_map;
mod standard;
mod terms;
#[cfg(target_arch = "x86_64")]
mod vectors;
