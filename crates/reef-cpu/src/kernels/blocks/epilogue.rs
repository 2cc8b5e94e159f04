//! The commit of a block: sums become outputs.

use super::operand::Operand;
use crate::kernels::values::function::apply;
#[cfg(target_arch = "x86_64")]
use crate::kernels::values::lanes::{LANES, lanes, write};
#[cfg(target_arch = "x86_64")]
use crate::kernels::values::register_epilogue::RegisterEpilogue;
use crate::kernels::values::scalar::relu;
use crate::kernels::values::simd::widest;
use reef_op::Function;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::ops::Range;

/// Outputs from which on compilers' loops over a row are faster than vectors with masks.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 64;

/// Adds bias and residual, applies ReLU and a function, writes the output.
#[derive(Debug)]
pub(in crate::kernels) struct Epilogue {
    pub output: Operand,
    /// Shaped like the output.
    pub residual: Option<Operand>,
    pub relu: bool,
    pub function: Option<Function>,
}

/// Sums of some pixels and channels.
#[derive(Debug, Clone)]
pub(in crate::kernels) struct Sums<'a> {
    /// One row per pixel.
    pub sums: &'a [f32],
    /// Floats from a row to the next.
    pub pitch: usize,
    /// Range of pixels.
    pub pixels: Range<usize>,
    /// The first channel.
    pub channel: usize,
    /// One per channel; its length says how many channels there are.
    pub bias: &'a [f32],
}

impl Epilogue {
    /// Addresses that a commit from `channel` of `pixel` on touches: output and residual, or output
    /// twice.
    #[inline]
    pub(in crate::kernels) fn touches(&self, pixel: usize, channel: usize) -> [*const f32; 2] {
        let output = self.output.at(pixel, channel);
        let residual = self.residual.as_ref().map_or(output, |from| from.at(pixel, channel));
        [output, residual]
    }

    /// Writes the part of the output that `sums` are of.
    ///
    /// # Safety
    ///
    /// No other block writes these pixels and channels, and the residual isn't written meanwhile.
    pub(in crate::kernels) unsafe fn commit(&self, sums: &Sums<'_>) {
        #[cfg(target_arch = "x86_64")]
        if sums.bias.len() < SHORT && is_x86_feature_detected!("avx512f") {
            // SAFETY: the machine has AVX-512. No other block writes these pixels and channels, and
            // none writes the residual: `commit` demands it.
            return unsafe { self.commit_vectors(sums) };
        }
        widest(
            #[inline(always)]
            || {
                for (row, pixel) in sums.pixels.clone().enumerate() {
                    let from = &sums.sums[row * sums.pitch..];
                    // SAFETY: no other block writes these channels of `pixel`, and none writes the
                    // residual: `commit` demands it.
                    unsafe { self.commit_row(pixel, sums.channel, from, sums.bias) };
                }
            },
        );
    }

    /// # Safety
    ///
    /// Like [`commit`](Self::commit).
    #[inline(always)]
    unsafe fn commit_row(&self, pixel: usize, channel: usize, sums: &[f32], bias: &[f32]) {
        // SAFETY: no other block has these channels of `pixel`: `commit_row` demands it.
        let to = unsafe { self.output.write(pixel, channel, bias.len()) };
        let finish = |sum: f32| if self.relu { relu(sum) } else { sum };
        let terms = to.iter_mut().zip(sums).zip(bias);
        match &self.residual {
            Some(residual) => {
                // SAFETY: the residual isn't written meanwhile: `commit_row` demands it.
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

    /// Like [`commit`](Self::commit), by one or two vectors at a time: for short rows.
    ///
    /// # Safety
    ///
    /// Like [`commit`](Self::commit).
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn commit_vectors(&self, sums: &Sums<'_>) {
        let all = sums.bias.len();
        for (row, pixel) in sums.pixels.clone().enumerate() {
            let from = &sums.sums[row * sums.pitch..][..all];
            // SAFETY: no other block has these channels of `pixel`: `commit_vectors` demands it.
            let to = unsafe { self.output.write(pixel, sums.channel, all) };
            let residual = self.residual.as_ref().map(|residual| {
                // SAFETY: the residual isn't written meanwhile: `commit_vectors` demands it.
                unsafe { residual.read(pixel, sums.channel, all) }.as_ptr()
            });
            let mut at = 0;
            while at < all {
                let residual = residual.map(|residual| residual.wrapping_add(at));
                let (sums, bias) = (from[at..].as_ptr(), sums.bias[at..].as_ptr());
                let (to, left) = (to[at..].as_mut_ptr(), all - at);
                // SAFETY: the slices have `left` more floats each.
                at += unsafe {
                    match left.div_ceil(LANES) {
                        1 => self.commit_some::<1>(sums, bias, residual, to, left),
                        _ => self.commit_some::<2>(sums, bias, residual, to, left),
                    }
                };
            }
        }
    }

    /// `N` vectors of one row, or what is `left` of it: sums, bias, residual and output. Returns
    /// the number of floats in `N` vectors.
    ///
    /// # Safety
    ///
    /// `left` floats can be read from each address, and written to `to`.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn commit_some<const N: usize>(
        &self,
        from: *const f32,
        bias: *const f32,
        residual: Option<*const f32>,
        to: *mut f32,
        left: usize,
    ) -> usize {
        let masks: [_; N] = std::array::from_fn(|v| lanes(left.saturating_sub(v * LANES)));
        let mut values = [_mm512_setzero_ps(); N];
        for (v, (value, mask)) in values.iter_mut().zip(masks).enumerate() {
            let load = |at: *const f32| {
                // SAFETY: `commit_vectors` gives slices with `left` floats from each address on,
                // and the mask leaves out what is behind.
                unsafe { _mm512_maskz_loadu_ps(mask, at.wrapping_add(v * LANES)) }
            };
            *value = _mm512_add_ps(load(from), load(bias));
            if let Some(residual) = residual {
                *value = _mm512_add_ps(*value, load(residual));
            }
        }
        RegisterEpilogue { relu: self.relu, function: self.function }.apply_in_loop(&mut values);
        for (v, (value, mask)) in values.into_iter().zip(masks).enumerate() {
            // SAFETY: `commit_vectors` gives a slice with `left` floats from `to` on, and the mask
            // leaves out what is behind.
            unsafe { write(to.wrapping_add(v * LANES), mask, value) };
        }
        N * LANES
    }
}
