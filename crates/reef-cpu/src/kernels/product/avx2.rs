//! The product of a [`Tile`] with AVX2 and its fused multiply-add.
//!
//! Sums of up to six rows times two vectors take 12 of the 16 registers. More rows go in parts of
//! almost the same size, because a part of one or two rows is bound by the latency of its
//! additions.

use super::portable::{parts, product_of_rows};
use super::tile::{COLUMNS, Tile};
use std::arch::x86_64::*;

/// Floats of a vector.
const LANES: usize = 8;
/// Vectors of a row whose sums are in registers.
const VECTORS: usize = 2;

/// # Safety
///
/// Like [`multiply`](super::multiply::multiply).
#[target_feature(enable = "avx2,fma")]
pub(in crate::kernels) unsafe fn multiply(tile: &Tile) {
    for column in (0..tile.columns).step_by(VECTORS * LANES) {
        for rows in parts(tile.rows) {
            product_of_rows!(tile, rows, column);
        }
    }
}

/// # Safety
///
/// Like [`multiply`]; `R` rows from `row` and two vectors from `column` lie in the tile.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn product<const R: usize>(tile: &Tile, row: usize, column: usize) {
    // SAFETY: `R` rows of `COLUMNS` sums from `row` on are the caller's, and two vectors from
    // `column` on lie in them: `product` demands it.
    let (mut sums, to) = unsafe {
        let to = tile.sums.add(row * tile.sums_pitch + column);
        (load::<R>(tile, to), to)
    };
    for k in 0..tile.depth {
        let mut b = [_mm256_setzero_ps(); VECTORS];
        for (v, b) in b.iter_mut().enumerate() {
            // SAFETY: `b` has `depth` rows of `COLUMNS`: `multiply` demands it.
            *b = unsafe { _mm256_loadu_ps(tile.b.add(k * COLUMNS + column + v * LANES)) };
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            // SAFETY: `a` has `row + R` rows of `depth`: `multiply` demands it of all rows.
            let a = _mm256_set1_ps(unsafe { *tile.a.add((row + r) * tile.a_pitch + k) });
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum = _mm256_fmadd_ps(a, b, *sum);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            // SAFETY: `R` rows of `COLUMNS` sums from `row` on are the caller's, and two vectors
            // from `column` on lie in them: `product` demands it.
            unsafe { _mm256_storeu_ps(to.add(r * tile.sums_pitch + v * LANES), sum) };
        }
    }
}

/// The sums so far.
///
/// # Safety
///
/// `R` rows of two vectors can be read at `from`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn load<const R: usize>(tile: &Tile, from: *const f32) -> [[__m256; VECTORS]; R] {
    let mut sums = [[_mm256_setzero_ps(); VECTORS]; R];
    if !tile.fresh {
        for (r, sums) in sums.iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                // SAFETY: `R` rows of two vectors can be read at `from`: `load` demands it.
                *sum = unsafe { _mm256_loadu_ps(from.add(r * tile.sums_pitch + v * LANES)) };
            }
        }
    }
    sums
}
