//! One block: some lines of outputs.
//!
//! ```text
//! for each line of outputs
//!     fill the strip                      (here it polls the stop word)
//!     for each panel of outputs
//!         for each ROWS windows           (and here)
//!             sums = windows · panel
//! commit
//! ```

use super::product::{Multiply, Sums, Windows, of_step};
use super::strip::Strip;
use crate::kernel::{Block, Kernel, Outcome};
use crate::kernels::blocks::epilogue::{self, Epilogue};
use crate::kernels::blocks::operand::{Constants, Operand, is_planar};
use crate::kernels::blocks::operand_layout::grid;
use crate::kernels::blocks::plan::{Plan, Share};
use crate::kernels::blocks::shape::GroupShape;
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::images::convolution::bound_conv::BoundConv;
use crate::kernels::product::tile::{COLUMNS, ROWS};
use reef_core::Result;

/// Most terms of a sum: a panel of them stays in the L2 cache.
const TERMS: usize = 1024;

/// A convolution, ready to run.
#[derive(Debug)]
struct Strips {
    input: Operand,
    constants: Constants,
    epilogue: Epilogue,
    shape: GroupShape,
    strip: Strip,
    /// Products of half a panel, and of a whole one.
    multiply: [Multiply; 2],
    /// Columns of the window, and floats between windows.
    columns: usize,
    step: usize,
    /// Outputs of a line, filled up to whole tiles.
    padded: usize,
    plan: Plan,
}

/// The kernel of `conv`, which was checked; `None` if it isn't done this way on this machine.
///
/// # Errors
///
/// Returns the errors of [`gathered`](crate::kernels::images::convolution::gathered::block::build).
pub(in crate::kernels) fn build(conv: &BoundConv<'_>) -> Result<Option<(Kernel, u32)>> {
    conv.check()?;
    let (op, shape) = (conv.op, GroupShape::of(conv.op));
    let fits = op.groups == 1 && is_planar(&op.input) && shape.depth <= TERMS;
    if !fits || !is_x86_feature_detected!("avx512f") {
        return Ok(None);
    }
    let [step, columns] = [op.window.stride[1], op.window.size[1]];
    let padded = op.output.width.next_multiple_of(ROWS);
    let plan = Plan::lines(&op.output, padded, conv.units);
    let (Some(strip), Some(multiply), Some(plan)) = (Strip::of(op), of_step(step), plan) else {
        return Ok(None);
    };
    let (input, constants, epilogue) = (conv.input()?, conv.constants(), conv.epilogue()?);
    let strips =
        Strips { input, constants, epilogue, shape, strip, multiply, columns, step, padded, plan };
    let blocks = grid(plan.blocks())?;
    Ok(Some((Kernel::new("conv2d", move |block, _| strips.run(block)), blocks)))
}

impl Strips {
    fn run(&self, block: &mut Block<'_>) -> Outcome {
        let share = self.plan.share(block.index as usize);
        let stop = StopToken::of(block);
        let width = self.epilogue.output.tensor.width;
        let line = self.padded * self.plan.block_outputs;
        let all = self.plan.block_pixels / width * line;
        let (strip, sums) = block.scratch(self.strip.len() + all).split_at_mut(self.strip.len());
        let lines = share.pixels.clone().step_by(width).zip(sums.chunks_exact_mut(line));
        for (first, sums) in lines {
            if stop.is_set() || !self.multiply(first, &share, strip, sums, stop) {
                return Outcome::Stopped;
            }
        }
        if stop.is_set() {
            return Outcome::Stopped;
        }
        let lines = share.pixels.clone().step_by(width).zip(sums.chunks_exact(line));
        for (first, sums) in lines {
            let sums = epilogue::Sums {
                sums,
                pitch: self.plan.block_outputs,
                pixels: first..first + width,
                channel: share.outputs.start,
                bias: &self.constants.floats()[share.outputs.clone()],
            };
            // SAFETY: the block has borrowed output and residual, and shares of blocks are
            // disjoint.
            unsafe { self.epilogue.commit(&sums) };
        }
        Outcome::Done
    }

    /// Makes the sums of the line that begins at pixel `first`. Gives `false` if the block should
    /// stop.
    fn multiply(
        &self,
        first: usize,
        share: &Share,
        strip: &mut [f32],
        sums: &mut [f32],
        stop: StopToken<'_>,
    ) -> bool {
        let output = &self.epilogue.output;
        let (line, pitch) = (first / output.tensor.width, self.plan.block_outputs);
        let place = [line / output.tensor.height, line % output.tensor.height];
        // SAFETY: the block has borrowed the input, so nothing writes it meanwhile.
        unsafe { self.strip.fill(&self.input, place, strip) };
        for column in (0..share.outputs.len()).step_by(COLUMNS) {
            let output_channel = share.outputs.start + column;
            let multiply = self.multiply[usize::from(share.outputs.len() - column > COLUMNS / 2)];
            for x in (0..self.padded).step_by(ROWS) {
                if stop.is_set() {
                    return false;
                }
                let windows = Windows {
                    strip: &strip[x * self.step..],
                    lines: self.strip.lines,
                    pitch: self.strip.pitch,
                    columns: self.columns,
                };
                let sums = Sums {
                    floats: &mut sums[x * pitch + column..],
                    pitch,
                    touches: self.epilogue.touches(first + x, output_channel),
                    apart: output.pitch(),
                };
                // SAFETY: there is AVX-512, or this kernel wasn't built.
                unsafe { multiply(&windows, self.panel(output_channel), sums) };
            }
        }
        true
    }

    /// The panel that begins with an output.
    fn panel(&self, output: usize) -> &[f32] {
        let packed = &self.constants.floats()[self.shape.padded()..];
        &packed[output / COLUMNS * COLUMNS * self.shape.depth..]
    }
}
