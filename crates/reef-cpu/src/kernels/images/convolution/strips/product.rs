//! The product of a strip's windows and a panel, with AVX-512.

use crate::kernels::product::tile::{COLUMNS, ROWS};
use crate::kernels::values::lanes::LANES;
use std::arch::asm;
use std::arch::x86_64::*;

/// Windows in a strip.
#[derive(Debug, Clone, Copy)]
pub(super) struct Windows<'a> {
    /// Floats from the first window's first float on.
    pub(super) strip: &'a [f32],
    /// Lines of the strip, and floats from one to the next.
    pub(super) lines: usize,
    pub(super) pitch: usize,
    /// Columns of a window.
    pub(super) columns: usize,
}

/// Memory of sums.
#[derive(Debug)]
pub(super) struct Sums<'a> {
    pub(super) floats: &'a mut [f32],
    /// Floats from a row to the next.
    pub(super) pitch: usize,
    /// Operands of the commit of the first row, and floats to those of the next: prefetched
    /// meanwhile.
    pub(super) touches: [*const f32; 2],
    pub(super) apart: usize,
}

/// Multiplies [`ROWS`] windows side by side with a panel, which has a row of [`COLUMNS`] for each
/// of their floats.
pub(super) type Multiply = unsafe fn(&Windows<'_>, &[f32], Sums<'_>);

/// The products of windows that are `step` floats apart, if there are any: for half a panel, and
/// for a whole one. Needs a machine with AVX-512.
pub(super) fn of_step(step: usize) -> Option<[Multiply; 2]> {
    match step {
        1 => Some([multiply::<1, 1>, multiply::<1, 2>]),
        2 => Some([multiply::<2, 1>, multiply::<2, 2>]),
        4 => Some([multiply::<4, 1>, multiply::<4, 2>]),
        _ => None,
    }
}

/// See [`Multiply`], of the first `V` vectors of each row of the panel. That windows are `STEP`
/// floats apart is known when this is compiled, so that the address of each is that of the first
/// one and a constant.
///
/// # Safety
///
/// The machine has AVX-512.
///
/// # Panics
///
/// If a slice is too short.
#[target_feature(enable = "avx512f")]
unsafe fn multiply<const STEP: usize, const V: usize>(
    windows: &Windows<'_>,
    panel: &[f32],
    to: Sums<'_>,
) {
    let Windows { strip, lines, pitch, columns } = *windows;
    assert!((lines - 1) * pitch + (ROWS - 1) * STEP + columns <= strip.len(), "{windows:?}");
    assert!(lines * columns * COLUMNS <= panel.len(), "a row of the panel for each term");
    assert!((ROWS - 1) * to.pitch + COLUMNS <= to.floats.len(), "a row of sums for each window");
    let mut sums = [[_mm512_setzero_ps(); V]; ROWS];
    let mut weights = panel.as_ptr();
    for line in 0..lines {
        let mut row = line; // not `step_by`, which divides
        while row < ROWS {
            bring_near(to.touches.map(|at| at.wrapping_add(row * to.apart)));
            row += lines;
        }
        let from = strip.as_ptr().wrapping_add(line * pitch);
        for column in 0..columns {
            let mut b = [_mm512_setzero_ps(); V];
            for (v, b) in b.iter_mut().enumerate() {
                // SAFETY: the panel has a row for each column of each line.
                *b = unsafe { _mm512_loadu_ps(weights.add(v * LANES)) };
            }
            weights = weights.wrapping_add(COLUMNS);
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the last column of the last window's last line is inside.
                let a = _mm512_set1_ps(unsafe { *from.add(column + row * STEP) });
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = _mm512_fmadd_ps(a, b, *sum);
                }
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        let to = to.floats[row * to.pitch..][..COLUMNS].as_mut_ptr();
        for (v, &sum) in sums.iter().enumerate() {
            // SAFETY: the slice has two vectors.
            unsafe { _mm512_storeu_ps(to.add(v * LANES), sum) };
        }
    }
}

/// Prefetches a panel's floats: those at `output` will be written, and those at `residual`
/// read.
#[inline]
#[target_feature(enable = "avx512f")]
fn bring_near([output, residual]: [*const f32; 2]) {
    for at in [0, LANES] {
        // SAFETY: a prefetch, which may point anywhere; compilers make `prefetcht1` of the
        // intrinsic.
        unsafe {
            asm!(
                "prefetchw byte ptr [{0}]",
                in(reg) output.wrapping_add(at),
                options(nostack, preserves_flags, readonly),
            );
        }
        _mm_prefetch::<_MM_HINT_T1>(residual.wrapping_add(at).cast());
    }
}
