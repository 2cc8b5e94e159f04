//! Convolutions with one filter per channel: multiply-adds along the channels.

use super::conv;
use super::epilogue::{Epilogue, Sums};
use super::operand::{Constants, Operand};
use super::place::{Place, grid};
use super::plan::{Plan, Share};
use super::simd::widest;
use super::stop_token::StopToken;
use super::taps::Taps;
use crate::kernel::{Block, Kernel, Outcome};
use crate::memory::Buffer;
use reef_core::Result;
use reef_core::op::Conv2d;

pub(super) fn build(
    op: &Conv2d,
    input: &Place,
    residual: Option<&Place>,
    output: &Place,
    constants: Buffer,
) -> Result<(Kernel, u32)> {
    conv::check(op)?;
    let depthwise = Depthwise::new(op, input, residual, output, constants)?;
    let blocks = grid(depthwise.plan.blocks())?;
    Ok((Kernel::new("depthwise", move |block, _| depthwise.run(block)), blocks))
}

#[derive(Debug)]
struct Depthwise {
    input: Operand,
    constants: Constants,
    epilogue: Epilogue,
    plan: Plan,
    taps: Taps,
}

impl Depthwise {
    fn new(
        op: &Conv2d,
        input: &Place,
        residual: Option<&Place>,
        output: &Place,
        constants: Buffer,
    ) -> Result<Self> {
        let taps = Taps::new(op.window, &op.input, &op.output);
        let epilogue = conv::epilogue(op, residual, output)?;
        Ok(Self {
            plan: Plan::elementwise(epilogue.output.pixels(), op.input.channels, taps.count()),
            input: Operand::native(input, op.input, "depthwise input")?,
            constants: Constants::new(constants),
            epilogue,
            taps,
        })
    }

    fn run(&self, block: &mut Block<'_>) -> Outcome {
        let share = self.plan.share(block.index as usize);
        let stop = StopToken::of(block);
        let pitch = share.outputs.len();
        let sums = &mut block.scratch(self.plan.sums())[..pitch * share.pixels.len()];
        for (pixel, sums) in share.pixels.clone().zip(sums.chunks_exact_mut(pitch)) {
            if stop.seen()
                || !widest(
                    #[inline(always)]
                    || self.pixel(pixel, &share, sums, stop),
                )
            {
                return Outcome::Stopped;
            }
        }
        if stop.seen() {
            return Outcome::Stopped;
        }
        let bias = &self.constants.floats()[share.outputs.clone()];
        let Share { pixels, outputs, .. } = share;
        // SAFETY: shares are disjoint, and launches don't overlap with writers of their residual.
        unsafe {
            self.epilogue.commit(&Sums { sums, pitch, pixels, channel: outputs.start, bias })
        };
        Outcome::Done
    }

    /// Sums up one pixel. Gives `false` if the block should stop.
    #[inline(always)]
    fn pixel(&self, pixel: usize, share: &Share, sums: &mut [f32], stop: StopToken<'_>) -> bool {
        sums.fill(0.0);
        let all = self.input.tensor.channels;
        self.taps.visit(
            pixel,
            #[inline(always)]
            |tap, from| {
                let weights = &self.constants.floats()[(tap + 1) * all..][share.outputs.clone()];
                // SAFETY: launches don't overlap with writers of their input.
                let inputs = unsafe { self.input.read(from, share.outputs.start, sums.len()) };
                for ((sum, input), weight) in sums.iter_mut().zip(inputs).zip(weights) {
                    *sum += input * weight;
                }
                !stop.seen()
            },
        )
    }
}
