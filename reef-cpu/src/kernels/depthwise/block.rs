//! One block: some pixels and channels.

use crate::kernel::{Block, Kernel, Outcome};
use crate::kernels::conv;
use crate::kernels::epilogue::{Epilogue, Sums};
use crate::kernels::operand::{Constants, Operand};
use crate::kernels::place::{Place, grid};
use crate::kernels::plan::{Plan, Share};
use crate::kernels::simd::widest;
use crate::kernels::stop_token::StopToken;
use crate::kernels::taps::Taps;
use crate::memory::Buffer;
use reef_core::Result;
use reef_core::op::{Conv2d, Tensor};
#[cfg(target_arch = "x86_64")]
use {
    super::avx512::{Windows, channels_at_once, sum},
    super::line::{Axis, Group, axes},
    std::ops::Range,
};

pub(in crate::kernels) fn build(
    op: &Conv2d,
    input: &Place,
    residual: Option<&Place>,
    output: &Place,
    constants: Buffer,
    units: u32,
) -> Result<(Kernel, u32)> {
    conv::check(op)?;
    let depthwise = Depthwise::new(op, input, residual, output, constants, units)?;
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
    #[cfg(target_arch = "x86_64")]
    axes: [Axis; 2],
}

impl Depthwise {
    fn new(
        op: &Conv2d,
        input: &Place,
        residual: Option<&Place>,
        output: &Place,
        constants: Buffer,
        units: u32,
    ) -> Result<Self> {
        let taps = Taps::new(op.window, &op.input, &op.output);
        let epilogue = conv::epilogue(op, residual, output)?;
        let pixels = epilogue.output.pixels();
        Ok(Self {
            plan: Plan::elementwise(pixels, op.input.channels, taps.count(), units),
            input: Operand::native(input, op.input, "depthwise input")?,
            constants: Constants::new(constants),
            epilogue,
            taps,
            #[cfg(target_arch = "x86_64")]
            axes: axes(op),
        })
    }

    fn run(&self, block: &mut Block<'_>) -> Outcome {
        let share = self.plan.share(block.index as usize);
        let stop = StopToken::of(block);
        let pitch = share.outputs.len();
        let sums = &mut block.scratch(self.plan.sums())[..pitch * share.pixels.len()];
        if !self.sums(&share, sums, stop) || stop.seen() {
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

    /// Sums up all pixels of a share. Gives `false` if the block should stop.
    fn sums(&self, share: &Share, sums: &mut [f32], stop: StopToken<'_>) -> bool {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            return self.lines(share, sums, stop);
        }
        let pixels = share.pixels.clone().zip(sums.chunks_exact_mut(share.outputs.len()));
        for (pixel, sums) in pixels {
            let going = widest(
                #[inline(always)]
                || self.pixel(pixel, share, sums, stop),
            );
            if !going {
                return false;
            }
        }
        true
    }

    /// As [`sums`](Self::sums), line by line, on a machine with AVX-512.
    #[cfg(target_arch = "x86_64")]
    fn lines(&self, share: &Share, sums: &mut [f32], stop: StopToken<'_>) -> bool {
        let (width, mut pixel) = (self.epilogue.output.tensor.width, share.pixels.start);
        while pixel < share.pixels.end {
            let end = share.pixels.end.min((pixel / width + 1) * width);
            let from = (pixel - share.pixels.start) * share.outputs.len();
            if !self.line(pixel..end, share, &mut sums[from..], stop) {
                return false;
            }
            pixel = end;
        }
        true
    }

    /// Sums up some pixels of one line of outputs.
    #[cfg(target_arch = "x86_64")]
    fn line(
        &self,
        pixels: Range<usize>,
        share: &Share,
        sums: &mut [f32],
        stop: StopToken<'_>,
    ) -> bool {
        let [rows, columns] = self.axes;
        let Tensor { height, width, .. } = self.epilogue.output.tensor;
        let (image, y, x) =
            (pixels.start / (height * width), pixels.start / width % height, pixels.start % width);
        let (taps, all, pitch) = (rows.inside(y), self.input.tensor.channels, share.outputs.len());
        let filter_row = columns.size * all;
        let weights = &self.constants.floats()[all..];
        assert!(weights.len() >= rows.size * filter_row && sums.len() >= pixels.len() * pitch);
        let mut done = 0;
        while done < pitch {
            if stop.seen() {
                return false;
            }
            let (channel, channels) = (share.outputs.start + done, channels_at_once(pitch - done));
            for Group { first, count, columns: seen } in columns.groups(x..x + pixels.len()) {
                let first_sum = (first - x) * pitch + done;
                let tap = taps.start * filter_row + seen.start * all + channel;
                let mut windows = Windows {
                    input: std::ptr::null(),
                    input_steps: [columns.stride, 1, columns.picture]
                        .map(|n| n * self.input.pitch()),
                    weights: weights.as_ptr().wrapping_add(tap),
                    weight_steps: [all, filter_row],
                    taps: [taps.len(), seen.len()],
                    sums: sums.as_mut_ptr().wrapping_add(first_sum),
                    pitch,
                };
                if taps.is_empty() || seen.is_empty() {
                    windows.taps = [0; 2];
                } else {
                    let row = y * rows.stride + taps.start - rows.padding;
                    let column = first * columns.stride + seen.start - columns.padding;
                    let from = (image * rows.picture + row) * columns.picture + column;
                    windows.input = self.input.at(from, channel);
                }
                // SAFETY: the machine has AVX-512. `inside` and `groups` name taps that see pixels of the picture, the
                // weights and sums were measured, and launches don't overlap with writers of their input.
                unsafe { sum(&windows, count, channels) };
            }
            done += channels;
        }
        true
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
