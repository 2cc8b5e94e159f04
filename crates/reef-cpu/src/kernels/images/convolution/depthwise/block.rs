//! One block: some pixels and channels.

use crate::kernel::{Block, Kernel, Outcome};
use crate::kernels::blocks::epilogue::{Epilogue, Sums};
use crate::kernels::blocks::operand::{Constants, Operand};
use crate::kernels::blocks::operand_layout::grid;
use crate::kernels::blocks::plan::{Plan, Share};
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::blocks::window_offsets::WindowOffsets;
use crate::kernels::images::convolution::bound_conv::BoundConv;
use crate::kernels::values::simd::widest;
use reef_core::Result;
#[cfg(target_arch = "x86_64")]
use reef_op::{Conv2d, Tensor};
#[cfg(target_arch = "x86_64")]
use {
    super::avx512::{Line, Sum, of_shape},
    crate::kernels::values::lanes::{LANES, lanes},
    crate::kernels::values::register_epilogue::RegisterEpilogue,
    std::ops::Range,
};

/// Products of a block that is one commit: about five microseconds' worth.
#[cfg(target_arch = "x86_64")]
const PRODUCTS: usize = 128 * 1024;
/// Outputs of such a block.
#[cfg(target_arch = "x86_64")]
const FLOATS: usize = 4 * 1024;

pub(in crate::kernels) fn build(conv: &BoundConv<'_>) -> Result<(Kernel, u32)> {
    conv.check()?;
    let depthwise = Depthwise::new(conv)?;
    let blocks = grid(depthwise.plan.blocks())?;
    Ok((Kernel::new("depthwise", move |block, _| depthwise.run(block)), blocks))
}

#[derive(Debug)]
struct Depthwise {
    input: Operand,
    constants: Constants,
    epilogue: Epilogue,
    plan: Plan,
    taps: WindowOffsets,
    /// Functions that compute lines of one and of two vectors of channels, if there are any.
    #[cfg(target_arch = "x86_64")]
    lines: Option<[Sum; 2]>,
}

impl Depthwise {
    fn new(conv: &BoundConv<'_>) -> Result<Self> {
        let (op, epilogue) = (conv.op, conv.epilogue()?);
        let taps = WindowOffsets::new(op.window, &op.input, &op.output);
        let (pixels, channels) = (epilogue.output.pixels(), op.input.channels);
        #[cfg(target_arch = "x86_64")]
        let lines = lines_of(op);
        #[cfg(target_arch = "x86_64")]
        let most = lines.map(|_| (PRODUCTS / taps.count()).min(FLOATS));
        #[cfg(not(target_arch = "x86_64"))]
        let most = None;
        Ok(Self {
            plan: match most {
                Some(most) => Plan::rows(pixels, channels, most, conv.units),
                None => Plan::elementwise(pixels, channels, taps.count(), conv.units),
            },
            input: conv.native_input("depthwise")?,
            constants: conv.constants(),
            epilogue,
            taps,
            #[cfg(target_arch = "x86_64")]
            lines,
        })
    }

    fn run(&self, block: &mut Block<'_>) -> Outcome {
        let share = self.plan.share(block.index as usize);
        let stop = StopToken::of(block);
        #[cfg(target_arch = "x86_64")]
        if let Some(sums) = self.lines {
            return if stop.is_set() { Outcome::Stopped } else { self.commit_lines(&share, sums) };
        }
        let pitch = share.outputs.len();
        let sums = &mut block.scratch(self.plan.sums())[..pitch * share.pixels.len()];
        if !self.sums(&share, sums, stop) || stop.is_set() {
            return Outcome::Stopped;
        }
        let bias = &self.constants.floats()[share.outputs.clone()];
        let Share { pixels, outputs, .. } = share;
        // SAFETY: the block has borrowed output and residual, and shares of blocks are disjoint.
        unsafe {
            self.epilogue.commit(&Sums { sums, pitch, pixels, channel: outputs.start, bias })
        };
        Outcome::Done
    }

    /// Sums up all pixels of a share. Gives `false` if the block should stop.
    fn sums(&self, share: &Share, sums: &mut [f32], stop: StopToken<'_>) -> bool {
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

    /// All of a block, which nothing stops.
    #[cfg(target_arch = "x86_64")]
    fn commit_lines(&self, share: &Share, sums: [Sum; 2]) -> Outcome {
        let (width, mut pixel) = (self.epilogue.output.tensor.width, share.pixels.start);
        while pixel < share.pixels.end {
            let end = share.pixels.end.min((pixel / width + 1) * width);
            let (line, windows) = (pixel / width, pixel % width..(end - 1) % width + 1);
            for done in (0..share.outputs.len()).step_by(2 * LANES) {
                let channels = share.outputs.start + done..share.outputs.end;
                let made = self.line(line, channels.clone());
                let sum = sums[usize::from(channels.len() > LANES)];
                // SAFETY: the machine has AVX-512. `line` named what lies inside of the operands,
                // which the block has borrowed, and shares of blocks are disjoint.
                unsafe { sum(&made, windows.clone()) };
            }
            pixel = end;
        }
        Outcome::Done
    }

    /// Up to two vectors of `channels` of a line of outputs.
    #[cfg(target_arch = "x86_64")]
    fn line(&self, line: usize, channels: Range<usize>) -> Line {
        let Tensor { height, width, .. } = self.epilogue.output.tensor;
        let (extent, window) = (&self.input.tensor, self.taps.window());
        let (image, y) = (line / height, line % height);
        let start = y * window.stride[0];
        let first = window.padding[0].saturating_sub(start).min(window.size[0]);
        let end = (extent.height + window.padding[0]).saturating_sub(start).min(window.size[0]);
        let rows = end.saturating_sub(first);
        // Of a window without rows nothing is read.
        let (first, row) =
            if rows > 0 { (first, start + first - window.padding[0]) } else { (0, 0) };
        let (all, channel) = (extent.channels, channels.start);
        let constants = self.constants.floats();
        let taps = &constants[all + first * window.size[1] * all + channel..];
        assert!(rows == 0 || taps.len() >= (rows * window.size[1] - 1) * all + channels.len());
        let (output, residual) = (&self.epilogue.output, self.epilogue.residual.as_ref());
        Line {
            input: self.input.at((image * extent.height + row) * extent.width, channel),
            input_steps: [1, extent.width].map(|pixels| pixels * self.input.pitch()),
            width: extent.width,
            padding: window.padding[1],
            weights: taps.as_ptr(),
            rows,
            weight_step: all,
            bias: constants[channel..all].as_ptr(),
            output: output.at(line * width, channel),
            output_step: output.pitch(),
            residual: residual.map(|from| from.at(line * width, channel).cast_const()),
            residual_step: residual.map_or(0, Operand::pitch),
            masks: [0, LANES].map(|done| lanes(channels.len().saturating_sub(done))),
            end: RegisterEpilogue { relu: self.epilogue.relu, function: self.epilogue.function },
        }
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
                // SAFETY: the block has borrowed the input, so nothing writes it meanwhile.
                let inputs = unsafe { self.input.read(from, share.outputs.start, sums.len()) };
                for ((sum, input), weight) in sums.iter_mut().zip(inputs).zip(weights) {
                    *sum += input * weight;
                }
                !stop.is_set()
            },
        )
    }
}

/// Functions that compute the lines of `op` on this machine, unless a few channels of one window
/// are too much for a commit.
#[cfg(target_arch = "x86_64")]
fn lines_of(op: &Conv2d) -> Option<[Sum; 2]> {
    let [rows, columns] = op.window.size;
    let is_short = rows * columns * 4 * LANES <= PRODUCTS;
    (is_short && is_x86_feature_detected!("avx512f"))
        .then(|| of_shape(columns, op.window.stride[1]))
        .flatten()
}
