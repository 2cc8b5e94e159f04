//! Picks the kernels of an operation.

use super::pack::{is_depthwise, packed_len};
use super::place::Place;
use super::{conv, depthwise, linear, pointwise, pool, scale_shift};
use crate::kernel::Kernel;
use crate::memory::Buffer;
use reef_core::op::Op;
use reef_core::{Error, Result};

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
    op.check()?;
    let constants = check_constants(op, constants)?;
    let launch = match op {
        Op::Conv2d(op) if is_depthwise(op) => {
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

/// The packed constants, which are as long as [`pack`](super::pack::pack()) made them, or an empty buffer.
fn check_constants(op: &Op, constants: Option<Buffer>) -> Result<Buffer> {
    let have = constants.as_ref().map_or(0, Buffer::bytes);
    let want = packed_len(op) * size_of::<f32>();
    if have < want {
        return Err(Error::Invalid(format!("cpu: {have} bytes of constants, {want} needed")));
    }
    constants.map_or_else(|| Buffer::zeroed(0), Ok)
}
