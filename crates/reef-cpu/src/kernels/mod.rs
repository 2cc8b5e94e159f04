//! Kernels of neural networks.
//!
//! In: an operation of [`reef_op`], on images (`images`) or on tensors (`tensor`), and where its
//! operands lie. Out: kernels, each with its number of blocks. Below both: `blocks` has what all of
//! them are made of, `product` the innermost product of matrices, `values` functions of single
//! values and of vectors.
//!
//! A native tensor lies pixel after pixel, each with all its channels (NHWC): a range of channels
//! is a narrower row with the same pitch, a 1×1 convolution is a plain matrix product, and
//! elementwise work runs along the channels, whatever their number. `docs/cpu-kernels.md` has the
//! reasons and the measurements.
//!
//! Invariant: every block obeys one contract, which makes preemption exactly-once. It
//! computes into the unit's scratch memory, polls the stop word every few microseconds, and
//! touches its part of the output (disjoint from every other block's) only once nothing can stop it
//! any more. A block that lasts no longer than the time between two polls (`direct`, lines of
//! `depthwise`) looks once, at its beginning, and then goes from inputs to outputs in registers.

pub(crate) mod blocks;
pub(crate) mod images;
mod product;
pub(crate) mod tensor;
mod values;

#[cfg(test)]
mod tests;
