//! Element-wise operations: activations, and products of two tensors.
//!
//! Bound by memory, as [`scale_shift`](super::scale_shift) is: a block is one short commit, and
//! polls the stop word before.

use crate::kernel::{Block, Kernel, Outcome};
use crate::kernels::blocks::operand::Operand;
use crate::kernels::blocks::operand_layout::{OperandMemory, grid};
use crate::kernels::blocks::plan::Plan;
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::values::function::{apply, name};
use crate::kernels::values::simd::widest;
use reef_core::{Error, Result};
use reef_op::{Activate, Multiply, Tensor};

/// Floats of a block.
const FLOATS: usize = 12 * 1024;

pub(in crate::kernels) fn activate(
    op: &Activate,
    input: &OperandMemory,
    output: &OperandMemory,
    units: u32,
) -> Result<(Kernel, u32)> {
    let map = Pointwise::new((input, op.input), (output, op.output), "activation", units)?;
    let function = op.function;
    Ok(map.rows(
        name(function),
        #[inline(always)]
        move |_, _, to, from| {
            to.copy_from_slice(from);
            apply(function, to);
        },
    ))
}

pub(in crate::kernels) fn multiply(
    op: &Multiply,
    input: &OperandMemory,
    factor: Option<&OperandMemory>,
    output: &OperandMemory,
    units: u32,
) -> Result<(Kernel, u32)> {
    let map = Pointwise::new((input, op.input), (output, op.output), "product", units)?;
    let place = factor.ok_or_else(|| Error::invalid("factor", "must be given"))?;
    let factor = Operand::native(place, op.factor, "product factor")?;
    let pixels = pixels_of_a_factor(op)?;
    Ok(map.rows("multiply", move |pixel, first, to, from| {
        // SAFETY: the block has borrowed the factor, so nothing writes it meanwhile.
        let factors = unsafe { factor.read(pixel / pixels, first, to.len()) };
        for ((to, x), factor) in to.iter_mut().zip(from).zip(factors) {
            *to = x * factor;
        }
    }))
}

/// Number of pixels of the input that have the same factors.
fn pixels_of_a_factor(op: &Multiply) -> Result<usize> {
    let (wanted, have) = (op.input.shape(), op.factor.shape());
    let [batch, channels, height, width] = wanted;
    match have {
        _ if have == wanted => Ok(1),
        _ if have == [batch, channels, 1, 1] => Ok(height * width),
        _ => Err(Error::invalid(
            "factor",
            format!("must be {wanted:?}, or of one pixel, got {have:?}"),
        )),
    }
}

#[derive(Debug)]
struct Pointwise {
    input: Operand,
    output: Operand,
    plan: Plan,
    blocks: u32,
}

impl Pointwise {
    fn new(
        input: (&OperandMemory, Tensor),
        output: (&OperandMemory, Tensor),
        what: &str,
        units: u32,
    ) -> Result<Self> {
        let (from, to) = (input.1.shape(), output.1.shape());
        if from != to {
            return Err(Error::invalid(
                format!("{what} output"),
                format!("must be {from:?}, as the input is, got {to:?}"),
            ));
        }
        let input = Operand::native(input.0, input.1, &format!("{what} input"))?;
        let output = Operand::native(output.0, output.1, &format!("{what} output"))?;
        let plan = Plan::rows(output.pixels(), output.tensor.channels, FLOATS, units);
        Ok(Self { input, output, plan, blocks: grid(plan.blocks())? })
    }

    /// The kernel that calls `row(pixel, first channel, outputs, inputs)` for each row of channels.
    fn rows(
        self,
        name: &'static str,
        row: impl Fn(usize, usize, &mut [f32], &[f32]) + Send + Sync + 'static,
    ) -> (Kernel, u32) {
        let blocks = self.blocks;
        (Kernel::new(name, move |block, _| self.run(block, &row)), blocks)
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        row: &impl Fn(usize, usize, &mut [f32], &[f32]),
    ) -> Outcome {
        if StopToken::of(block).is_set() {
            return Outcome::Stopped;
        }
        let share = self.plan.share(block.index as usize);
        let (first, len) = (share.outputs.start, share.outputs.len());
        widest(
            #[inline(always)]
            || {
                for pixel in share.pixels {
                    // SAFETY: the block has borrowed the input, so nothing writes it meanwhile.
                    let from = unsafe { self.input.read(pixel, first, len) };
                    // SAFETY: the block has borrowed the output, and shares of blocks are disjoint.
                    let to = unsafe { self.output.write(pixel, first, len) };
                    row(pixel, first, to, from);
                }
            },
        );
        Outcome::Done
    }
}
