//! The commit of a block: sums become outputs.

use super::operand::Operand;
use super::simd::{self, widest};
use std::ops::Range;

/// Floats of a cache line.
const LINE: usize = 16;

/// Adds bias and residual, applies ReLU, writes the output.
#[derive(Debug)]
pub(super) struct Epilogue {
    pub output: Operand,
    /// Shaped like the output.
    pub residual: Option<Operand>,
    pub relu: bool,
}

/// Sums of some pixels and channels.
#[derive(Debug, Clone)]
pub(super) struct Sums<'a> {
    /// One row per pixel.
    pub sums: &'a [f32],
    /// Floats from a row to the next.
    pub pitch: usize,
    /// Which pixels.
    pub pixels: Range<usize>,
    /// The first channel.
    pub channel: usize,
    /// One per channel; its length says how many channels there are.
    pub bias: &'a [f32],
}

/// Part of an output.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub pixels: Range<usize>,
    pub channel: usize,
    pub channels: usize,
}

impl Epilogue {
    /// Brings a part of the output and the residual near, so that the commit is short.
    #[inline]
    pub(super) fn prefetch(&self, part: &Part) {
        for pixel in part.pixels.clone() {
            for channel in (part.channel..part.channel + part.channels).step_by(LINE) {
                simd::prefetch_to_write(self.output.at(pixel, channel));
                if let Some(residual) = &self.residual {
                    simd::prefetch_to_read(residual.at(pixel, channel));
                }
            }
        }
    }

    /// Writes the part of the output that `sums` are of.
    ///
    /// # Safety
    ///
    /// No other block writes these pixels and channels, and nobody writes the residual.
    pub(super) unsafe fn commit(&self, sums: &Sums<'_>) {
        widest(
            #[inline(always)]
            || {
                for (row, pixel) in sums.pixels.clone().enumerate() {
                    let from = &sums.sums[row * sums.pitch..];
                    // SAFETY: the caller's promise.
                    unsafe { self.commit_row(pixel, sums.channel, from, sums.bias) };
                }
            },
        );
    }

    /// # Safety
    ///
    /// As [`commit`](Self::commit).
    #[inline(always)]
    unsafe fn commit_row(&self, pixel: usize, channel: usize, sums: &[f32], bias: &[f32]) {
        // SAFETY: no other block has these channels of this pixel.
        let to = unsafe { self.output.write(pixel, channel, bias.len()) };
        let finish = |sum: f32| if self.relu { sum.max(0.0) } else { sum };
        let terms = to.iter_mut().zip(sums).zip(bias);
        match &self.residual {
            Some(residual) => {
                // SAFETY: nobody writes the residual.
                let residual = unsafe { residual.read(pixel, channel, bias.len()) };
                terms.zip(residual).for_each(|(((to, sum), bias), residual)| {
                    *to = finish(sum + bias + residual);
                });
            }
            None => terms.for_each(|((to, sum), bias)| *to = finish(sum + bias)),
        }
    }
}
