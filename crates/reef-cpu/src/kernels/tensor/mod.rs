//! Kernels of operations on tensors.
//!
//! In: an operation, and where its operands lie. Out: a kernel whose blocks make ranges of the
//! output. Most run the loops that define the operation; sums of products, formulas, folds and
//! attention of singles have kernels of their own.
//!
//! Invariants: blocks write disjoint parts of the output, which overlaps nothing that is read; a
//! block that was stopped has written nothing.

mod attention;
pub(crate) mod bind;
mod bound;
mod dense;
mod formulas;
mod moves;
pub(crate) mod products;
