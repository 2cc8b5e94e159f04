//! Windows of one line with AVX-512, from inputs to outputs in registers.
//!
//! A column of the image is read once for all windows that see it: seven windows of
//! 5 × 5 side by side read 11 vectors of a row and not 35. The shape of filters is known when this
//! is compiled, so each column knows its windows and each window its tap.

use crate::kernels::values::lanes::{LANES, write};
use crate::kernels::values::register_epilogue::RegisterEpilogue;
use std::arch::x86_64::*;
use std::ops::Range;

/// Windows side by side, and one or two vectors of channels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    /// Column 0 of the first row of the image that taps see.
    pub input: *const f32,
    /// Floats from a column to the next, and from a row to the next.
    pub input_steps: [usize; 2],
    /// Columns of the image, and the number of columns before it.
    pub width: usize,
    pub padding: usize,
    /// The first weight of the first row of taps that lie inside of the image, and how many such
    /// rows there are.
    pub weights: *const f32,
    pub rows: usize,
    /// Floats from a tap's weights to the next one's.
    pub weight_step: usize,
    pub bias: *const f32,
    /// Window 0 of the output, and floats from a window to the next.
    pub output: *mut f32,
    pub output_step: usize,
    /// Likewise what is added.
    pub residual: Option<*const f32>,
    pub residual_step: usize,
    /// Channels that exist.
    pub masks: [__mmask16; 2],
    pub end: RegisterEpilogue,
}

/// Computes some windows of a line.
///
/// Safe to call if the machine has AVX-512, and for what the masks name: each tap of the rows has
/// weights; what it sees inside of the line can be read; so can the bias and the windows of the
/// residual; the windows of the output are the caller's.
pub(super) type Sum = unsafe fn(&Line, Range<usize>);

/// Functions that compute one and two vectors of channels, for filters of `columns` columns that
/// move by `stride`.
pub(super) fn of_shape(columns: usize, stride: usize) -> Option<[Sum; 2]> {
    match (columns, stride) {
        (3, 1) => Some([line::<3, 1, 1>, line::<3, 1, 2>]),
        (3, 2) => Some([line::<3, 2, 1>, line::<3, 2, 2>]),
        (5, 1) => Some([line::<5, 1, 1>, line::<5, 1, 2>]),
        (5, 2) => Some([line::<5, 2, 1>, line::<5, 2, 2>]),
        (7, 1) => Some([line::<7, 1, 1>, line::<7, 1, 2>]),
        (7, 2) => Some([line::<7, 2, 1>, line::<7, 2, 2>]),
        _ => None,
    }
}

/// # Safety
///
/// See [`Sum`].
#[target_feature(enable = "avx512f")]
unsafe fn line<const K: usize, const STRIDE: usize, const V: usize>(
    line: &Line,
    windows: Range<usize>,
) {
    let mut at = windows.start;
    while at < windows.end {
        // Networks for images of 224 × 224 have lines of 112, 56, 28, 14 and 7.
        // SAFETY: the machine has AVX-512, and `line` names operands of all `windows`, of which
        // these are some: `Sum` demands it.
        at += unsafe {
            match windows.end - at {
                7.. => some::<K, STRIDE, V, 7>(line, at),
                3.. => some::<K, STRIDE, V, 3>(line, at),
                _ => some::<K, STRIDE, V, 1>(line, at),
            }
        };
    }
}

/// Computes `P` windows, and gives their number.
///
/// # Safety
///
/// See [`Sum`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn some<const K: usize, const STRIDE: usize, const V: usize, const P: usize>(
    line: &Line,
    at: usize,
) -> usize {
    let Line { input_steps: [right, down], width, weight_step, .. } = *line;
    let first = (at * STRIDE).wrapping_sub(line.padding);
    let mut sums = [[_mm512_setzero_ps(); V]; P];
    for row in 0..line.rows {
        let mut factors = [[_mm512_setzero_ps(); V]; K];
        for (k, factors) in factors.iter_mut().enumerate() {
            // SAFETY: a tap of one of `rows` rows, each of which has weights: `Sum` demands it.
            *factors =
                unsafe { load(line, line.weights.wrapping_add((row * K + k) * weight_step)) };
        }
        let input = line.input.wrapping_add(row * down);
        macro_rules! columns {
            ($($i:literal)*) => { $(
                let column = first.wrapping_add($i);
                if $i < (P - 1) * STRIDE + K && column < width {
                    // SAFETY: a column of the image in a row that taps see, which can be read:
                    // `Sum` demands it.
                    let seen = unsafe { load::<V>(line, input.wrapping_add(column * right)) };
                    for (p, sums) in sums.iter_mut().enumerate() {
                        if p * STRIDE <= $i && $i - p * STRIDE < K {
                            for (v, sum) in sums.iter_mut().enumerate() {
                                *sum = _mm512_fmadd_ps(seen[v], factors[$i - p * STRIDE][v], *sum);
                            }
                        }
                    }
                }
            )* };
        }
        columns!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18);
    }
    // SAFETY: the bias of the channels that the masks name can be read: `Sum` demands it.
    let bias = unsafe { load::<V>(line, line.bias) };
    for sums in &mut sums {
        for (sum, bias) in sums.iter_mut().zip(bias) {
            *sum = _mm512_add_ps(*sum, bias);
        }
    }
    if let Some(from) = line.residual {
        for (p, sums) in sums.iter_mut().enumerate() {
            // SAFETY: a window of the residual, which can be read: `Sum` demands it.
            let added =
                unsafe { load::<V>(line, from.wrapping_add((at + p) * line.residual_step)) };
            for (sum, added) in sums.iter_mut().zip(added) {
                *sum = _mm512_add_ps(*sum, added);
            }
        }
    }
    line.end.apply(&mut sums);
    for (p, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            let to = line.output.wrapping_add((at + p) * line.output_step + v * LANES);
            // SAFETY: a window of the output, which this block alone writes: `Sum` demands it.
            unsafe { write(to, line.masks[v], sum) };
        }
    }
    P
}

/// The channels at `from`.
///
/// # Safety
///
/// All floats that the masks name can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load<const V: usize>(line: &Line, from: *const f32) -> [__m512; V] {
    let mut vectors = [_mm512_setzero_ps(); V];
    for (v, vector) in vectors.iter_mut().enumerate() {
        // SAFETY: the lanes that the masks name can be read: `load` demands it.
        *vector = unsafe { _mm512_maskz_loadu_ps(line.masks[v], from.wrapping_add(v * LANES)) };
    }
    vectors
}
