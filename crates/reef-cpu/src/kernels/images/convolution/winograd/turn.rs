//! Turning inputs and sums, sixteen channels at a time, with AVX-512.

use crate::kernels::values::lanes::LANES;
use std::arch::x86_64::*;

/// Numbers of a turned tile.
pub(super) const POINTS: usize = 16;
/// Pixels of an output tile's side, and of an input tile's.
pub(super) const SIDES: [usize; 2] = [2, 4];

/// Turns the pixels that a tile sees: point `i` of channel `c` goes to `to[i * plane + c]`.
///
/// # Panics
///
/// If `seen` are not equally long and whole vectors, or `to` is too short.
#[target_feature(enable = "avx512f")]
pub(super) fn inputs(seen: &[&[f32]; POINTS], to: &mut [f32], plane: usize) {
    let channels = seen[0].len();
    let fits = channels <= plane && (POINTS - 1) * plane + channels <= to.len();
    assert!(fits && channels.is_multiple_of(LANES), "{channels} channels in planes of {plane}");
    assert!(seen.iter().all(|seen| seen.len() == channels), "pixels have as many channels");
    for channel in (0..channels).step_by(LANES) {
        let mut tile = [[_mm512_setzero_ps(); 4]; 4];
        for (number, seen) in tile.as_flattened_mut().iter_mut().zip(seen) {
            // SAFETY: `LANES` channels from there on are inside, as was checked.
            *number = unsafe { _mm512_loadu_ps(seen.as_ptr().add(channel)) };
        }
        for at in 0..4 {
            let line = input_line(column(&tile, at));
            for (row, number) in tile.iter_mut().zip(line) {
                row[at] = number;
            }
        }
        for line in &mut tile {
            *line = input_line(*line);
        }
        for (point, number) in tile.as_flattened().iter().enumerate() {
            // SAFETY: `LANES` floats from there on are inside of the last plane or an earlier one.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr().add(point * plane + channel), *number) };
        }
    }
}

/// A line of `Bᵀ d`.
#[inline]
#[target_feature(enable = "avx512f")]
fn input_line(d: [__m512; 4]) -> [__m512; 4] {
    [
        _mm512_sub_ps(d[0], d[2]),
        _mm512_add_ps(d[1], d[2]),
        _mm512_sub_ps(d[2], d[1]),
        _mm512_sub_ps(d[1], d[3]),
    ]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn column(tile: &[[__m512; 4]; 4], at: usize) -> [__m512; 4] {
    [tile[0][at], tile[1][at], tile[2][at], tile[3][at]]
}

/// Turns a tile's sums back: those of a vector of outputs lie at `sums[point * plane]`. False if
/// one of what comes out isn't finite, or if they are so large that their sum isn't.
///
/// # Panics
///
/// If a slice is too short.
#[target_feature(enable = "avx512f")]
pub(super) fn outputs(sums: &[f32], plane: usize, to: &mut [&mut [f32]; 4]) -> bool {
    assert!((POINTS - 1) * plane + LANES <= sums.len(), "sums in planes of {plane}");
    assert!(to.iter().all(|to| to.len() >= LANES), "a vector for each pixel");
    let mut tile = [[_mm512_setzero_ps(); 4]; 4];
    for (point, number) in tile.as_flattened_mut().iter_mut().enumerate() {
        // SAFETY: `LANES` floats from there on are inside, as was checked.
        *number = unsafe { _mm512_loadu_ps(sums.as_ptr().add(point * plane)) };
    }
    let [a, b, c, d] = [
        output_line(column(&tile, 0)),
        output_line(column(&tile, 1)),
        output_line(column(&tile, 2)),
        output_line(column(&tile, 3)),
    ];
    let lines = [output_line([a[0], b[0], c[0], d[0]]), output_line([a[1], b[1], c[1], d[1]])];
    let mut all = _mm512_setzero_ps();
    for (number, to) in lines.as_flattened().iter().zip(to) {
        all = _mm512_add_ps(all, *number);
        // SAFETY: each has `LANES` floats, as was checked.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), *number) };
    }
    _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(_mm512_sub_ps(all, all), _mm512_setzero_ps()) == !0
}

/// A line of `Aᵀ m`.
#[inline]
#[target_feature(enable = "avx512f")]
fn output_line(m: [__m512; 4]) -> [__m512; 2] {
    let (sum, difference) = (_mm512_add_ps(m[1], m[2]), _mm512_sub_ps(m[1], m[2]));
    [_mm512_add_ps(m[0], sum), _mm512_sub_ps(difference, m[3])]
}

/// Tells the processor that a panel's floats at `output` will be written, and those at `residual`
/// read.
pub(super) fn bring_near([output, residual]: [*const f32; 2]) {
    for (output, residual) in
        [0, LANES].map(|at| (output.wrapping_add(at), residual.wrapping_add(at)))
    {
        // SAFETY: prefetching reads nothing, wherever it points; all machines with SSE can.
        unsafe {
            _mm_prefetch::<_MM_HINT_ET0>(output.cast());
            _mm_prefetch::<_MM_HINT_T0>(residual.cast());
        }
    }
}
