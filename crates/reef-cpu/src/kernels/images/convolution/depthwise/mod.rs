//! Convolutions with one filter per channel: multiply-adds along the channels.
//!
//! In: a convolution with as many groups as channels, over a native tensor. Out: its kernel. Where
//! the machine has AVX-512, and for the usual filters, values stay in registers from inputs to
//! outputs: a block is so small that the whole of it is a commit. Elsewhere sums are in scratch
//! memory.

#[cfg(target_arch = "x86_64")]
mod avx512;
pub(in crate::kernels::images) mod block;
