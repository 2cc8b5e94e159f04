//! Convolutions as products of matrices, cut into tiles.
//!
//! In: a convolution whose operands are checked. Out: its launches, and the scratch memory that
//! they need. Invariant: scratch memory and launches come from the same plan. `build` chooses the
//! plan, modelled by `tiles` or measured by `tune`; `tiled` launches any plan that it is given, and
//! `group` several convolutions at once. `quantized` says which of them have kernels for numbers of
//! 8 bits.

pub(super) mod build;
pub(super) mod group;
pub(super) mod quantized;
mod tiled;
mod tune;
