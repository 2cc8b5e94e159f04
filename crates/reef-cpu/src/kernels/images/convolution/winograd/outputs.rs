//! A block's way from sums to outputs.

use super::block::{PIXELS, Scratch, Winograd};
use super::filters::weight;
use super::turn::{self, POINTS, SIDES};
use crate::kernels::blocks::epilogue::Sums;
use crate::kernels::blocks::plan::Share;
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::product::tile::COLUMNS;
use crate::kernels::values::lanes::LANES;
use crate::kernels::values::simd::widest;

/// Tiles that are turned back between two polls.
const TURNED_BACK: usize = 16;
/// Channels of a tile that are summed up as the definition says between two polls.
const PLAIN: usize = 16;

impl Winograd {
    /// Turns the sums of a panel's outputs back. Gives `false` if the block should stop.
    pub(super) fn turn_back(
        &self,
        share: &Share,
        column: usize,
        scratch: &mut Scratch<'_>,
        stop: StopToken<'_>,
    ) -> bool {
        let pitch = self.plan.block_outputs;
        let plane = self.plan.block_pixels * COLUMNS;
        let (upper, lower) = scratch.sums.split_at_mut(2 * self.plan.block_pixels * pitch);
        let pairs = upper.chunks_exact_mut(2 * pitch).zip(lower.chunks_exact_mut(2 * pitch));
        for ((row, tile), (upper, lower)) in share.pixels.clone().enumerate().zip(pairs) {
            if row % TURNED_BACK == 0 && stop.is_set() {
                return false;
            }
            let ((a, b), (c, d)) = (upper.split_at_mut(pitch), lower.split_at_mut(pitch));
            let mut to = [a, b, c, d].map(|to| &mut to[column..column + COLUMNS]);
            self.bring_near(tile, share.outputs.start + column);
            let mut is_finite = true;
            for half in (0..COLUMNS).step_by(LANES) {
                let points = &scratch.points[row * COLUMNS + half..];
                let mut to = to.each_mut().map(|to| &mut to[half..]);
                // SAFETY: there is AVX-512, or filters weren't turned.
                is_finite &= unsafe { turn::outputs(points, plane, &mut to) };
            }
            if !is_finite && !self.sum_plainly(share, tile, column, &mut to, stop) {
                return false;
            }
        }
        true
    }

    /// Prefetches the operands of a tile's commit.
    fn bring_near(&self, tile: usize, channel: usize) {
        let [image, y, x] = self.corner(tile);
        let tensor = &self.epilogue.output.tensor;
        for y in y..tensor.height.min(y + SIDES[0]) {
            for x in x..tensor.width.min(x + SIDES[0]) {
                let pixel = (image * tensor.height + y) * tensor.width + x;
                turn::bring_near(self.epilogue.touches(pixel, channel));
            }
        }
    }

    /// A tile's sums for a panel's outputs as the definition says. Gives `false` if the block
    /// should stop.
    #[cold]
    fn sum_plainly(
        &self,
        share: &Share,
        tile: usize,
        column: usize,
        to: &mut [&mut [f32]; PIXELS],
        stop: StopToken<'_>,
    ) -> bool {
        let (seen, channels) = (self.pixels_of(tile), self.channels());
        let numbers = self.panel(share, column, 0, 0);
        to.iter_mut().for_each(|to| to.fill(0.0));
        for first in (0..channels).step_by(PLAIN) {
            if stop.is_set() {
                return false;
            }
            widest(
                #[inline(always)]
                || {
                    for channel in first..channels.min(first + PLAIN) {
                        add_plainly(&seen, numbers, [channel, channels], to);
                    }
                },
            );
        }
        true
    }

    pub(super) fn commit(&self, share: &Share, sums: &[f32]) {
        let (pitch, line) = (self.plan.block_outputs, SIDES[0] * self.plan.block_pixels);
        let tensor = &self.epilogue.output.tensor;
        let bias = &self.constants.floats()[share.outputs.clone()];
        let mut tile = share.pixels.start;
        while tile < share.pixels.end {
            let [image, y, x] = self.corner(tile);
            let left = (tensor.width - x).div_ceil(SIDES[0]).min(share.pixels.end - tile);
            let columns = x..tensor.width.min(x + SIDES[0] * left);
            for (row, y) in (y..tensor.height.min(y + SIDES[0])).enumerate() {
                let first = (image * tensor.height + y) * tensor.width;
                let pixels = first + columns.start..first + columns.end;
                let from = row * line + SIDES[0] * (tile - share.pixels.start);
                let sums = &sums[from * pitch..];
                let sums = Sums { sums, pitch, pixels, channel: share.outputs.start, bias };
                // SAFETY: the block has borrowed output and residual, and shares of blocks are
                // disjoint.
                unsafe { self.epilogue.commit(&sums) };
            }
            tile += left;
        }
    }
}

/// Adds what a channel gives to a tile's four pixels.
#[inline(always)]
fn add_plainly(
    seen: &[&[f32]; POINTS],
    numbers: &[f32],
    [channel, channels]: [usize; 2],
    to: &mut [&mut [f32]; PIXELS],
) {
    for at in [0, 1, 2].into_iter().flat_map(|row| [0, 1, 2].map(|column| [row, column])) {
        let mut weights = [0.0; COLUMNS];
        for (column, to) in weights.iter_mut().enumerate() {
            *to = weight(at, |point| numbers[(point * channels + channel) * COLUMNS + column]);
        }
        for (pixel, to) in to.iter_mut().enumerate() {
            let [y, x] = [pixel / SIDES[0] + at[0], pixel % SIDES[0] + at[1]];
            let x = seen[y * SIDES[1] + x][channel];
            for (to, weight) in to.iter_mut().zip(weights) {
                *to += x * weight;
            }
        }
    }
}
