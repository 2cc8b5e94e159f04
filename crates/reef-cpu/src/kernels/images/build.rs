//! Picks the kernels of an operation.

use super::convolution::bound_conv::BoundConv;
use super::convolution::depthwise::block as depthwise;
use super::convolution::gathered::block as gathered;
#[cfg(target_arch = "x86_64")]
use super::convolution::winograd::{block as winograd, filters};
#[cfg(target_arch = "x86_64")]
use super::convolution::{direct, strips::block as strips};
use super::pack::{as_conv, is_depthwise, packed_len, refuse_quantized};
use super::{pointwise, pool, scale_shift};
use crate::kernel::Kernel;
use crate::kernels::blocks::operand::Operand;
use crate::kernels::blocks::operand_layout::OperandMemory;
use crate::memory::buffer::Buffer;
use reef_core::{Error, Result};
use reef_op::{Linear, Op, Tensor};
use std::ops::Range;

/// The kernels that compute `op` on `units` units, in launch order, each with its number of blocks.
///
/// # Errors
///
/// `Invalid` if shapes contradict each other or a storage is too small; `Unsupported` names what
/// has no kernel.
pub(crate) fn build(
    op: &Op,
    input: OperandMemory,
    residual: Option<OperandMemory>,
    output: OperandMemory,
    constants: Option<Buffer>,
    units: u32,
) -> Result<Vec<(Kernel, u32)>> {
    op.check()?;
    refuse_quantized(op)?;
    let constants = check_constants(op, constants)?;
    let second = residual.as_ref().zip(op.second());
    for (place, tensor) in [(&input, op.input())].into_iter().chain(second) {
        check_apart((place, tensor), (&output, op.output()))?;
    }
    let packed = OperandMemory { buffer: constants.clone(), offset: 0 };
    if meet(packed.addresses(constants.bytes()), storage(&output, op.output())) {
        return Err(Error::invalid("output", "cannot overlap the constants"));
    }
    let launch = match op {
        Op::Conv2d(op) => convolution(&BoundConv {
            op,
            input: &input,
            residual: residual.as_ref(),
            output: &output,
            constants: &constants,
            units,
        }),
        Op::Linear(op) => linear(op, &input, &output, constants, units),
        Op::Pool2d(op) => pool::build(op, &input, &output, units),
        Op::ScaleShift(op) => scale_shift::build(op, &input, &output, constants, units),
        Op::Activate(op) => pointwise::activate(op, &input, &output, units),
        Op::Multiply(op) => pointwise::multiply(op, &input, residual.as_ref(), &output, units),
    }?;
    Ok(vec![launch])
}

/// The kernel of a convolution that was checked.
fn convolution(conv: &BoundConv<'_>) -> Result<(Kernel, u32)> {
    if is_depthwise(conv.op) {
        return depthwise::build(conv);
    }
    #[cfg(target_arch = "x86_64")]
    if filters::are_turned(conv.op) {
        return winograd::build(conv);
    } else if let Some(kernel) = strips::build(conv)? {
        return Ok(kernel);
    } else if let Some(kernel) = direct::build(conv)? {
        return Ok(kernel);
    }
    gathered::build(conv)
}

/// A fully connected layer: a convolution over one pixel, bound by the memory that holds the
/// weights.
fn linear(
    op: &Linear,
    input: &OperandMemory,
    output: &OperandMemory,
    constants: Buffer,
    units: u32,
) -> Result<(Kernel, u32)> {
    for Tensor { height, width, .. } in [op.input, op.output] {
        if [height, width] != [1, 1] {
            return Err(Error::invalid(
                "linear layer",
                format!("must be of one pixel, got {height}x{width}"),
            ));
        }
    }
    Operand::new(input, op.input)?;
    let (op, constants) = (&as_conv(op), &constants);
    gathered::build(&BoundConv { op, input, residual: None, output, constants, units })
}

/// The packed constants, which are as long as [`pack`](super::pack::pack()) made them, or an empty
/// buffer.
fn check_constants(op: &Op, constants: Option<Buffer>) -> Result<Buffer> {
    let have = constants.as_ref().map_or(0, Buffer::bytes);
    let want = packed_len(op) * size_of::<f32>();
    if have < want {
        return Err(Error::invalid(
            "constants",
            format!("must have at least {want} bytes, got {have}"),
        ));
    }
    constants.map_or_else(|| Buffer::zeroed(0), Ok)
}

/// Blocks write their parts of the output while others read, so nothing that is read may lie in it.
/// Both may be channels of one storage, as where networks concatenate.
fn check_apart(read: (&OperandMemory, &Tensor), written: (&OperandMemory, &Tensor)) -> Result<()> {
    let (from, to) = (storage(read.0, read.1), storage(written.0, written.1));
    if !meet(from.clone(), to.clone()) {
        return Ok(());
    }
    let channels = |t: &Tensor| t.first..t.first + t.channels;
    let whole = |t: &Tensor| (t.layout, t.batch, t.height, t.width, t.of);
    let same_storage = from.start == to.start && whole(read.1) == whole(written.1);
    if same_storage && !meet(channels(read.1), channels(written.1)) {
        return Ok(());
    }
    Err(Error::invalid("output", "cannot overlap what is read"))
}

/// The addresses of a tensor's storage.
fn storage(place: &OperandMemory, tensor: &Tensor) -> Range<usize> {
    place.addresses(tensor.storage_elements() * size_of::<f32>())
}

fn meet(a: Range<usize>, b: Range<usize>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}
