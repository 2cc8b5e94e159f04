//! Convolutions with one filter per channel: multiply-adds along the channels.
//!
//! In: a convolution with as many groups as channels, over a native tensor. Out: its kernel. Sums stay in registers
//! while all taps of a window are added, where the machine has AVX-512; elsewhere they are in scratch memory.

#[cfg(target_arch = "x86_64")]
mod avx512;
pub(super) mod block;
#[cfg(target_arch = "x86_64")]
mod line;
