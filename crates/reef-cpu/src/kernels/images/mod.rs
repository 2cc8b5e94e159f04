//! Operations of networks for images.
//!
//! In: an [`Op`](reef_op::Op) and where its operands lie, with constants in the kernels' order
//! ([`pack`]). Out: its kernels ([`build`]). Invariant: an operation was checked before a
//! kernel is made of it, and what it writes overlaps nothing that it reads.

pub(crate) mod build;
pub(super) mod convolution;
pub(crate) mod pack;
mod pointwise;
mod pool;
mod scale_shift;
