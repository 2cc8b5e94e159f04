//! The commit of a block: sums become outputs.

use super::function::apply;
use super::operand::Operand;
use super::scalar::relu;
use super::simd::widest;
use reef_core::op::Function;
use std::ops::Range;

/// Adds bias and residual, applies ReLU and a function, writes the output.
#[derive(Debug)]
pub(super) struct Epilogue {
    pub output: Operand,
    /// Shaped like the output.
    pub residual: Option<Operand>,
    pub relu: bool,
    pub function: Option<Function>,
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

impl Epilogue {
    /// What a commit from `channel` of `pixel` on touches: output and residual, or output twice.
    #[inline]
    pub(super) fn touches(&self, pixel: usize, channel: usize) -> [*const f32; 2] {
        let output = self.output.at(pixel, channel);
        let residual = self.residual.as_ref().map_or(output, |from| from.at(pixel, channel));
        [output, residual]
    }

    /// Writes the part of the output that `sums` are of.
    ///
    /// # Safety
    ///
    /// No other block writes these pixels and channels, and the residual isn't written meanwhile.
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
        let finish = |sum: f32| if self.relu { relu(sum) } else { sum };
        let terms = to.iter_mut().zip(sums).zip(bias);
        match &self.residual {
            Some(residual) => {
                // SAFETY: the residual isn't written meanwhile.
                let residual = unsafe { residual.read(pixel, channel, bias.len()) };
                terms.zip(residual).for_each(|(((to, sum), bias), residual)| {
                    *to = finish(sum + bias + residual);
                });
            }
            None => terms.for_each(|((to, sum), bias)| *to = finish(sum + bias)),
        }
        if let Some(function) = self.function {
            apply(function, to);
        }
    }
}
