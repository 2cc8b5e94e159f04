//! Convolutions.
//!
//! In: a convolution and where its operands lie ([`bound_conv`]). Out: its kernel, of the first
//! folder that has one:
//!
//! | folder | which convolutions |
//! |---|---|
//! | `depthwise` | one filter for each channel |
//! | `winograd` | windows of three by three, with AVX-512 |
//! | `strips` | of planes, such as a network's first one, with AVX-512 |
//! | `direct.rs` | windows of one pixel, sums of few terms, with AVX-512 |
//! | `gathered` | all |
//!
//! Invariant: sums of `strips` and `direct` have the bits that `gathered` would give them.

pub(in crate::kernels) mod bound_conv;
pub(super) mod depthwise;
#[cfg(target_arch = "x86_64")]
pub(super) mod direct;
pub(in crate::kernels) mod gathered;
#[cfg(target_arch = "x86_64")]
pub(super) mod strips;
#[cfg(target_arch = "x86_64")]
pub(super) mod winograd;
