//! Channel-wise affine maps.
//!
//! Bound by memory, so a block takes no detour over scratch memory: it is short enough (about five
//! microseconds) to be one commit, and polls the stop word before.

use crate::kernel::{Block, Kernel, Outcome};
use crate::kernels::blocks::operand::{Constants, Operand};
use crate::kernels::blocks::operand_layout::{OperandMemory, grid};
use crate::kernels::blocks::plan::{Plan, Share};
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::values::scalar::relu;
use crate::kernels::values::simd::widest;
use crate::memory::buffer::Buffer;
use reef_core::{Error, Result};
use reef_op::ScaleShift;

/// Floats of a block.
const FLOATS: usize = 12 * 1024;

pub(in crate::kernels) fn build(
    op: &ScaleShift,
    input: &OperandMemory,
    output: &OperandMemory,
    constants: Buffer,
    units: u32,
) -> Result<(Kernel, u32)> {
    let (from, to) = (op.input.shape(), op.output.shape());
    if from != to {
        return Err(Error::invalid(
            "output",
            format!("must be {from:?}, as the input is, got {to:?}"),
        ));
    }
    let output = Operand::native(output, op.output, "scale_shift output")?;
    let map = Map {
        input: Operand::native(input, op.input, "scale_shift input")?,
        plan: Plan::rows(output.pixels(), op.output.channels, FLOATS, units),
        output,
        constants: Constants::new(constants),
        relu: op.relu,
    };
    let blocks = grid(map.plan.blocks())?;
    Ok((Kernel::new("scale_shift", move |block, _| map.run(block)), blocks))
}

#[derive(Debug)]
struct Map {
    input: Operand,
    output: Operand,
    constants: Constants,
    relu: bool,
    plan: Plan,
}

impl Map {
    fn run(&self, block: &mut Block<'_>) -> Outcome {
        if StopToken::of(block).is_set() {
            return Outcome::Stopped;
        }
        let share = self.plan.share(block.index as usize);
        widest(
            #[inline(always)]
            || {
                share.pixels.clone().for_each(
                    #[inline(always)]
                    |pixel| self.pixel(pixel, &share),
                )
            },
        );
        Outcome::Done
    }

    #[inline(always)]
    fn pixel(&self, pixel: usize, share: &Share) {
        let (first, len) = (share.outputs.start, share.outputs.len());
        // SAFETY: the block has borrowed the input, so nothing writes it meanwhile.
        let inputs = unsafe { self.input.read(pixel, first, len) };
        // SAFETY: the block has borrowed the output, and shares of blocks are disjoint.
        let outputs = unsafe { self.output.write(pixel, first, len) };
        let (bias, weights) = self.constants.floats().split_at(self.output.tensor.channels);
        let terms = inputs.iter().zip(&weights[first..]).zip(&bias[first..]);
        for (output, ((input, weight), bias)) in outputs.iter_mut().zip(terms) {
            let sum = input * weight + bias;
            *output = if self.relu { relu(sum) } else { sum };
        }
    }
}
