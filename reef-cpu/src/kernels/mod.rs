//! Kernels of neural networks.
//!
//! A native tensor lies pixel after pixel, each with all its channels (NHWC): a range of channels is
//! a narrower row with the same pitch, a 1×1 convolution is a plain matrix product, and elementwise
//! work runs along the channels, whatever their number. `docs/cpu-kernels.md` has the reasons and
//! the measurements.
//!
//! Every block obeys one contract, which makes preemption exactly-once: it computes into the unit's
//! scratch memory, looks at the stop word every few microseconds, and touches its part of the output
//! (disjoint from every other block's) only once nothing can stop it any more.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod conv;
mod depthwise;
mod epilogue;
mod gather;
mod linear;
mod operand;
mod pack;
mod plan;
mod pointwise;
mod pool;
mod scale_shift;
mod simd;
mod stop;
mod taps;
mod tile;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod timing;

use crate::{Buffer, Kernel};
use reef_core::op::Op;
use reef_core::{Error, Result};

pub(crate) use pack::pack;

/// Where a storage starts.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Holds the storage.
    pub buffer: Buffer,
    /// Its first byte, a multiple of 64.
    pub offset: usize,
}

/// The kernels that compute `op`, in launch order, each with its number of blocks.
///
/// # Errors
///
/// `Invalid` if shapes contradict each other or a storage is too small; `Unsupported` names what has
/// no kernel.
pub(crate) fn build(
    op: &Op,
    input: Place,
    residual: Option<Place>,
    output: Place,
    constants: Option<Buffer>,
) -> Result<Vec<(Kernel, u32)>> {
    let constants = check_constants(op, constants)?;
    let launch = match op {
        Op::Conv2d(op) if pack::is_depthwise(op) => {
            depthwise::build(op, &input, residual.as_ref(), &output, constants)
        }
        Op::Conv2d(op) => conv::build(op, &input, residual.as_ref(), &output, constants),
        Op::Linear(op) => linear::build(op, &input, &output, constants),
        Op::Pool2d(op) => pool::build(op, &input, &output),
        Op::ScaleShift(op) => scale_shift::build(op, &input, &output, constants),
        Op::Activate(op) => pointwise::activate(op, &input, &output),
        Op::Multiply(op) => pointwise::multiply(op, &input, residual.as_ref(), &output),
    }?;
    Ok(vec![launch])
}

/// The packed constants, which are as long as [`pack()`] made them, or an empty buffer.
fn check_constants(op: &Op, constants: Option<Buffer>) -> Result<Buffer> {
    let have = constants.as_ref().map_or(0, Buffer::bytes);
    let want = pack::packed_len(op)? * size_of::<f32>();
    if have < want {
        return Err(Error::Invalid(format!("cpu: {have} bytes of constants, {want} needed")));
    }
    constants.map_or_else(|| Buffer::zeroed(0), Ok)
}

/// Blocks fit a launch.
fn grid(blocks: usize) -> Result<u32> {
    u32::try_from(blocks).map_err(|_| Error::Invalid(format!("cpu: {blocks} blocks in one launch")))
}

/// Says that `what` has no kernel.
fn unsupported(what: impl Into<String>) -> Error {
    Error::Unsupported { backend: "cpu", what: what.into() }
}
