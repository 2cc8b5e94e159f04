//! Normalisations among formulas of rows: kernels/normal.h.
//!
//! In: a formula of rows with its operands. Out: one launch of a small kernel, or none if the
//! formula is something else or doesn't lie in chunks, so that it is interpreted. Invariant: what
//! the kernel makes differs from what the formula says by roundings alone.

pub(super) mod launch;
mod pattern;
