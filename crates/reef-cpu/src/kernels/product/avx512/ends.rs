//! Operations on a tile's sums.

use crate::kernels::product::tile::Tile;
use crate::kernels::values::lanes::{LANES, lanes, write};
use crate::kernels::values::register_epilogue::RegisterEpilogue;
use std::arch::x86_64::*;

/// Operations on a tile's sums before they are written, where they are not kept for more terms.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels) struct Ends {
    /// One for each of the tile's columns.
    pub bias: *const f32,
    /// Values added to the first row, and floats to those added to the next.
    pub residual: Option<*const f32>,
    pub residual_pitch: usize,
    pub end: RegisterEpilogue,
}

impl Ends {
    /// Nothing but the bias and ReLU.
    fn is_plain(&self) -> bool {
        self.residual.is_none() && self.end.function.is_none()
    }
}

/// Writes the sums, or what becomes of them.
///
/// # Safety
///
/// `R` rows of the tile's columns at its `sums` are the caller's, or of `V` vectors if they are
/// kept as they are; what `ends` names can be read and isn't written meanwhile.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn finish<const R: usize, const V: usize, const END: bool>(
    sums: &[[__m512; V]; R],
    tile: &Tile,
    ends: Option<&Ends>,
) {
    match ends.filter(|_| END) {
        // SAFETY: without ends `R` rows of `V` vectors at `sums` are the tile's own: `finish`
        // demands it.
        None => unsafe { store(sums, tile) },
        // SAFETY: the tile's columns of `R` rows at `sums` are its own, and what `ends` names can
        // be read: `finish` demands it.
        Some(ends) if ends.is_plain() => unsafe { store_plain(sums, tile, ends) },
        // SAFETY: the tile's columns of `R` rows at `sums` are its own, and what `ends` names can
        // be read: `finish` demands it. Of a copy, as sums whose address is known elsewhere are in
        // no registers.
        Some(ends) => unsafe { store_ends(&{ *sums }, tile, ends) },
    }
}

/// Adds the bias, and writes what is at least the floor.
///
/// # Safety
///
/// Like [`finish`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_plain<const R: usize, const V: usize>(
    sums: &[[__m512; V]; R],
    tile: &Tile,
    ends: &Ends,
) {
    let floor = _mm512_set1_ps(if ends.end.relu { 0.0 } else { f32::NEG_INFINITY });
    for v in 0..V {
        let mask = lanes(tile.columns.saturating_sub(v * LANES));
        // SAFETY: there is a bias for each column, which the mask names: `finish` demands it.
        let bias = unsafe { _mm512_maskz_loadu_ps(mask, ends.bias.wrapping_add(v * LANES)) };
        for (r, row) in sums.iter().enumerate() {
            let to = tile.sums.wrapping_add(r * tile.sums_pitch + v * LANES);
            // NaN stays NaN: of two values that can't be compared, the second is taken.
            let value = _mm512_max_ps(floor, _mm512_add_ps(row[v], bias));
            // SAFETY: the tile's columns of `R` rows are its own: `finish` demands it. The mask
            // leaves out others.
            unsafe { write(to, mask, value) };
        }
    }
}

/// Writes what becomes of sums, row by row.
///
/// # Safety
///
/// Like [`finish`].
#[inline(never)]
#[target_feature(enable = "avx512f")]
unsafe fn store_ends<const V: usize>(sums: &[[__m512; V]], tile: &Tile, ends: &Ends) {
    let masks: [_; V] = std::array::from_fn(|v| lanes(tile.columns.saturating_sub(v * LANES)));
    for (r, sums) in sums.iter().enumerate() {
        let mut row = *sums;
        for (v, value) in row.iter_mut().enumerate() {
            // SAFETY: there is a bias for each column, which the mask names: `finish` demands it.
            let bias =
                unsafe { _mm512_maskz_loadu_ps(masks[v], ends.bias.wrapping_add(v * LANES)) };
            *value = _mm512_add_ps(*value, bias);
            if let Some(residual) = ends.residual {
                let from = residual.wrapping_add(r * ends.residual_pitch + v * LANES);
                // SAFETY: the residual has the tile's columns in each row: `finish` demands it.
                *value = _mm512_add_ps(*value, unsafe { _mm512_maskz_loadu_ps(masks[v], from) });
            }
        }
        ends.end.apply_in_loop(&mut row);
        for (v, value) in row.into_iter().enumerate() {
            let to = tile.sums.wrapping_add(r * tile.sums_pitch + v * LANES);
            // SAFETY: the tile's columns of each row are its own: `finish` demands it. The mask
            // leaves out others.
            unsafe { write(to, masks[v], value) };
        }
    }
}

/// Writes sums as they are.
///
/// # Safety
///
/// Like [`finish`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store<const R: usize, const V: usize>(sums: &[[__m512; V]; R], tile: &Tile) {
    for (r, row) in sums.iter().enumerate() {
        for (v, &sum) in row.iter().enumerate() {
            let to = tile.sums.wrapping_add(r * tile.sums_pitch + v * LANES);
            // SAFETY: `R` rows of `V` vectors are the tile's own, as sums are kept: `finish`
            // demands it.
            unsafe { _mm512_storeu_ps(to, sum) };
        }
    }
}
