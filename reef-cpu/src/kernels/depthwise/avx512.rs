//! Sums of windows in registers, with AVX-512.

use std::arch::x86_64::*;

/// Floats of a vector.
const LANES: usize = 16;

/// Some windows side by side, some channels, and the taps that they all see.
#[derive(Debug, Clone, Copy)]
pub(super) struct Windows {
    /// What the first tap of the first window sees.
    pub input: *const f32,
    /// Floats from what a tap sees to what it sees in the next window, to the next tap's, and to the next row's.
    pub input_steps: [usize; 3],
    /// The weights of the first tap.
    pub weights: *const f32,
    /// Floats from a tap's to the next one's, and to the next row's.
    pub weight_steps: [usize; 2],
    /// Rows and columns of taps.
    pub taps: [usize; 2],
    /// The first window's.
    pub sums: *mut f32,
    /// Floats from a window's to the next one's.
    pub pitch: usize,
}

/// Channels that are added up together, if there are `left`.
pub(super) fn channels_at_once(left: usize) -> usize {
    match left {
        0..32 => left.min(LANES),
        32..64 => 2 * LANES,
        _ => 4 * LANES,
    }
}

/// Writes the sums of `count` windows and `channels` channels.
///
/// # Safety
///
/// - `count` is 1, 2 or 4, and `channels` one of [`channels_at_once`].
/// - So many channels can be read of each tap and of what it sees in each window, and so many sums be written.
/// - What is read isn't written meanwhile.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn sum(windows: &Windows, count: usize, channels: usize) {
    let mask = if channels < LANES { (1 << channels) - 1 } else { !0 };
    // SAFETY: the caller's promise; a mask leaves out the channels that there are not.
    unsafe {
        match (count, channels.div_ceil(LANES)) {
            (1, 1) => add::<1, 1>(windows, mask),
            (1, 2) => add::<1, 2>(windows, mask),
            (1, 4) => add::<1, 4>(windows, mask),
            (2, 1) => add::<2, 1>(windows, mask),
            (2, 2) => add::<2, 2>(windows, mask),
            (2, 4) => add::<2, 4>(windows, mask),
            (4, 1) => add::<4, 1>(windows, mask),
            (4, 2) => add::<4, 2>(windows, mask),
            (4, 4) => add::<4, 4>(windows, mask),
            other => unreachable!("{other:?} windows and vectors"),
        }
    }
}

/// # Safety
///
/// As [`sum`], of `P` windows and `V` vectors of channels.
#[target_feature(enable = "avx512f")]
unsafe fn add<const P: usize, const V: usize>(windows: &Windows, mask: __mmask16) {
    let Windows { input, input_steps: [step, right, down], weights, .. } = *windows;
    let [next, next_row] = windows.weight_steps;
    let mut sums = [[_mm512_setzero_ps(); V]; P];
    for row in 0..windows.taps[0] {
        for column in 0..windows.taps[1] {
            let mut factors = [_mm512_setzero_ps(); V];
            let weights = weights.wrapping_add(row * next_row + column * next);
            for (v, factor) in factors.iter_mut().enumerate() {
                // SAFETY: the weights of a tap.
                *factor = unsafe { _mm512_maskz_loadu_ps(mask, weights.wrapping_add(v * LANES)) };
            }
            let from = input.wrapping_add(row * down + column * right);
            for (p, sums) in sums.iter_mut().enumerate() {
                for (v, (sum, factor)) in sums.iter_mut().zip(factors).enumerate() {
                    let from = from.wrapping_add(p * step + v * LANES);
                    // SAFETY: what the tap sees in window `p`.
                    let seen = unsafe { _mm512_maskz_loadu_ps(mask, from) };
                    *sum = _mm512_fmadd_ps(seen, factor, *sum);
                }
            }
        }
    }
    for (p, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            let to = windows.sums.wrapping_add(p * windows.pitch + v * LANES);
            // SAFETY: the sums of window `p`.
            unsafe { _mm512_mask_storeu_ps(to, mask, sum) };
        }
    }
}
