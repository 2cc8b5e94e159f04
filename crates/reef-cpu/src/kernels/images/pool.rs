//! Maxima and means over windows, along the channels.

use crate::kernel::{Block, Kernel, Outcome};
use crate::kernels::blocks::epilogue::{Epilogue, Sums};
use crate::kernels::blocks::operand::{Operand, check_window};
use crate::kernels::blocks::operand_layout::{OperandMemory, grid};
use crate::kernels::blocks::plan::{Plan, Share};
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::blocks::window_offsets::WindowOffsets;
use crate::kernels::values::scalar::larger;
use crate::kernels::values::simd::widest;
use reef_core::{Error, Result};
use reef_op::{Pool2d, PoolKind};

pub(in crate::kernels) fn build(
    op: &Pool2d,
    input: &OperandMemory,
    output: &OperandMemory,
    units: u32,
) -> Result<(Kernel, u32)> {
    check_window(&op.window, &op.input, &op.output)?;
    if op.input.channels != op.output.channels {
        let (from, to) = (op.input.channels, op.output.channels);
        return Err(Error::invalid(
            "channels of the output",
            format!("must be {from}, as in the input, got {to}"),
        ));
    }
    let pool = Pool::new(op, input, output, units)?;
    let blocks = grid(pool.plan.blocks())?;
    Ok(match op.kind {
        PoolKind::Max => {
            (Kernel::new("max_pool", move |block, _| pool.run(block, Maximum)), blocks)
        }
        PoolKind::Average => {
            let mean = Mean { factor: 1.0 / pool.taps.count() as f32 };
            (Kernel::new("average_pool", move |block, _| pool.run(block, mean)), blocks)
        }
    })
}

/// Values that are added up one after the other. What they give is a value of the next level, and
/// so on, so that a mean of millions is as exact as one of a few hundred.
const PART: usize = 64;

/// Reduction of a window's values to one.
trait Fold: Copy {
    fn empty(self) -> f32;
    fn add(self, sum: f32, value: f32) -> f32;
    fn finish(self, sum: f32) -> f32;
}

#[derive(Clone, Copy)]
struct Maximum;

impl Fold for Maximum {
    #[inline(always)]
    fn empty(self) -> f32 {
        f32::NEG_INFINITY
    }

    #[inline(always)]
    fn add(self, sum: f32, value: f32) -> f32 {
        larger(sum, value)
    }

    #[inline(always)]
    fn finish(self, sum: f32) -> f32 {
        sum
    }
}

#[derive(Clone, Copy)]
struct Mean {
    factor: f32,
}

impl Fold for Mean {
    #[inline(always)]
    fn empty(self) -> f32 {
        0.0
    }

    #[inline(always)]
    fn add(self, sum: f32, value: f32) -> f32 {
        sum + value
    }

    #[inline(always)]
    fn finish(self, sum: f32) -> f32 {
        sum * self.factor
    }
}

/// Adds `sums` to the first level and starts them anew; likewise each level that is full after
/// `parts` of them.
#[inline(always)]
fn add_up<'a>(mut parts: usize, mut sums: &'a mut [f32], levels: &'a mut [f32]) {
    for level in levels.chunks_exact_mut(sums.len()) {
        for (total, part) in level.iter_mut().zip(&mut *sums) {
            *total += std::mem::take(part);
        }
        if !parts.is_multiple_of(PART) {
            return;
        }
        (parts, sums) = (parts / PART, level);
    }
}

#[derive(Debug)]
struct Pool {
    input: Operand,
    epilogue: Epilogue,
    plan: Plan,
    taps: WindowOffsets,
    /// Sums of [`PART`] values, of as many such sums, and so on, for each channel. Maxima need
    /// none.
    levels: usize,
    /// Zeros, one per channel of a block.
    bias: Vec<f32>,
}

impl Pool {
    fn new(op: &Pool2d, input: &OperandMemory, output: &OperandMemory, units: u32) -> Result<Self> {
        let taps = WindowOffsets::new(op.window, &op.input, &op.output);
        let output = Operand::native(output, op.output, "pool2d output")?;
        let plan = Plan::elementwise(output.pixels(), op.output.channels, taps.count(), units);
        Ok(Self {
            input: Operand::native(input, op.input, "pool2d input")?,
            epilogue: Epilogue { output, residual: None, relu: false, function: None },
            bias: vec![0.0; plan.block_outputs],
            levels: match op.kind {
                PoolKind::Max => 0,
                PoolKind::Average => taps.count().max(1).ilog(PART) as usize,
            },
            plan,
            taps,
        })
    }

    fn run(&self, block: &mut Block<'_>, fold: impl Fold) -> Outcome {
        let share = self.plan.share(block.index as usize);
        let stop = StopToken::of(block);
        let pitch = share.outputs.len();
        let levels = self.levels * self.plan.block_outputs;
        let (sums, levels) =
            block.scratch(self.plan.sums() + levels).split_at_mut(self.plan.sums());
        let (sums, levels) =
            (&mut sums[..pitch * share.pixels.len()], &mut levels[..self.levels * pitch]);
        for (pixel, sums) in share.pixels.clone().zip(sums.chunks_exact_mut(pitch)) {
            if stop.is_set()
                || !widest(
                    #[inline(always)]
                    || self.pixel(pixel, &share, sums, levels, fold, stop),
                )
            {
                return Outcome::Stopped;
            }
        }
        if stop.is_set() {
            return Outcome::Stopped;
        }
        let Share { pixels, outputs, .. } = share;
        let bias = &self.bias[..pitch];
        // SAFETY: the block has borrowed the output, and shares of blocks are disjoint.
        unsafe {
            self.epilogue.commit(&Sums { sums, pitch, pixels, channel: outputs.start, bias })
        };
        Outcome::Done
    }

    /// Folds one window. Gives `false` if the block should stop.
    #[inline(always)]
    fn pixel(
        &self,
        pixel: usize,
        share: &Share,
        sums: &mut [f32],
        levels: &mut [f32],
        fold: impl Fold,
        stop: StopToken<'_>,
    ) -> bool {
        sums.fill(fold.empty());
        levels.fill(0.0);
        let mut seen = 0;
        let going = self.taps.visit(
            pixel,
            #[inline(always)]
            |_, from| {
                // SAFETY: the block has borrowed the input, so nothing writes it meanwhile.
                let inputs = unsafe { self.input.read(from, share.outputs.start, sums.len()) };
                for (sum, &input) in sums.iter_mut().zip(inputs) {
                    *sum = fold.add(*sum, input);
                }
                seen += 1;
                if seen % PART == 0 {
                    add_up(seen / PART, sums, levels);
                }
                !stop.is_set()
            },
        );
        for level in levels.chunks_exact(sums.len()) {
            sums.iter_mut().zip(level).for_each(|(sum, part)| *sum += part);
        }
        for sum in sums {
            *sum = fold.finish(*sum);
        }
        going
    }
}
