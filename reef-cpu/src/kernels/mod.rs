//! Kernels of neural networks.
//!
//! A native tensor lies pixel after pixel, each with all its channels (NHWC): a range of channels is
//! a narrower row with the same pitch, a 1×1 convolution is a plain matrix product, and elementwise
//! work runs along the channels, whatever their number. `docs/cpu-kernels.md` has the reasons and
//! the measurements.
//!
//! Every block obeys one contract, which makes preemption exactly-once: it computes into the unit's
//! scratch memory, looks at the stop word every few microseconds, and touches its part of the output
//! (disjoint from every other block's) only once nothing can stop it any more. A block that lasts no
//! longer than the time between two looks (`direct`, lines of `depthwise`) looks once, at its
//! beginning, and then goes from inputs to outputs in registers.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bound_conv;
pub(crate) mod build;
mod conv;
mod depthwise;
#[cfg(target_arch = "x86_64")]
mod direct;
#[cfg(target_arch = "x86_64")]
mod end;
mod epilogue;
mod finish;
mod function;
mod functions;
mod gather;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod linear;
mod operand;
pub(crate) mod pack;
pub(crate) mod place;
mod plan;
mod pointwise;
mod pool;
mod portable;
mod product;
mod scalar;
mod scale_shift;
mod shape;
#[cfg(target_arch = "x86_64")]
mod sigmoid;
mod simd;
mod stop_token;
#[cfg(target_arch = "x86_64")]
mod strips;
mod taps;
pub(crate) mod tensor;
mod tile;
#[cfg(target_arch = "x86_64")]
mod winograd;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod timing;
