//! The product of a tile by its rows and vectors.

use super::ends::{Ends, finish};
use super::pairs::{MIN_TERMS, add_pairs};
use crate::kernels::product::tile::{COLUMNS, Hints, ROWS, Tile};
use crate::kernels::values::lanes::LANES;
use std::arch::x86_64::*;
use std::ops::Range;

/// # Safety
///
/// Like [`multiply`](crate::kernels::product::multiply::multiply).
#[target_feature(enable = "avx512f")]
pub(in crate::kernels) unsafe fn multiply(tile: &Tile) {
    // SAFETY: the tile's operands are as large as it says, and nothing else writes them: `multiply`
    // demands it.
    unsafe { multiply_and::<false>(tile, None) }
}

/// Computes the product of `tile` and what becomes of it. Of each row it writes the tile's columns
/// alone.
///
/// # Safety
///
/// Like [`multiply`](crate::kernels::product::multiply::multiply), but only `columns` floats of
/// each row of `sums` are the caller's if `tile.fresh`; what `ends` names can be read and isn't
/// written meanwhile.
#[target_feature(enable = "avx512f")]
pub(in crate::kernels) unsafe fn multiply_to_the_end(tile: &Tile, ends: &Ends) {
    // SAFETY: the tile's operands and what `ends` names are as large as they say, and nothing else
    // writes them: `multiply_to_the_end` demands it. Tiles of direct.rs are fresh, so of `sums`
    // nothing is read, and the tile's columns alone are written.
    unsafe { multiply_and::<true>(tile, Some(ends)) }
}

/// Product with ends if `END` is set: without them, sums shall not leave registers for their sake.
///
/// # Safety
///
/// Like [`multiply`], and with `ends` as [`multiply_to_the_end`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn multiply_and<const END: bool>(tile: &Tile, ends: Option<&Ends>) {
    if tile.columns > LANES && tile.rows == ROWS && tile.depth >= MIN_TERMS {
        // SAFETY: operands and ends are as large as they say, and nothing else writes them:
        // `multiply_and` demands it. The tile is full and deep enough.
        unsafe { full::<END>(tile, ends) }
    } else if tile.columns > LANES {
        // SAFETY: operands and ends are as large as they say, and nothing else writes them:
        // `multiply_and` demands it.
        unsafe { by_rows::<2, END>(tile, ends) }
    } else {
        // SAFETY: operands and ends are as large as they say, and nothing else writes them:
        // `multiply_and` demands it. One vector has all of the tile's columns.
        unsafe { by_rows::<1, END>(tile, ends) }
    }
}

/// # Safety
///
/// Like [`multiply_and`].
#[target_feature(enable = "avx512f")]
unsafe fn by_rows<const VECTORS: usize, const END: bool>(tile: &Tile, ends: Option<&Ends>) {
    macro_rules! rows {
        ($($rows:literal)*) => {
            match tile.rows {
                // SAFETY: operands and ends are as large as they say, and nothing else writes them:
                // `multiply_and` demands it. The tile has this many rows.
                $($rows => unsafe { product::<$rows, VECTORS, END>(tile, ends) },)*
                rows => unreachable!("{rows} rows in a tile"),
            }
        };
    }
    rows!(1 2 3 4 5 6 7 8 9 10 11 12 13 14)
}

/// A full tile: pairs of terms in assembly, and the last term of an odd number.
///
/// # Safety
///
/// Like [`multiply_and`], for [`ROWS`] rows and at least [`MIN_TERMS`] terms.
#[target_feature(enable = "avx512f")]
unsafe fn full<const END: bool>(tile: &Tile, ends: Option<&Ends>) {
    // SAFETY: `sums` has `ROWS` rows of `COLUMNS` unless the tile is fresh: `full` demands it.
    let mut sums = unsafe { load::<ROWS, 2>(tile) };
    // SAFETY: `a` has `ROWS` rows of `depth` terms, `b` has as many, and there are `MIN_TERMS` at
    // least: `full` demands it. `add_pairs` leaves out the last term of an odd number, which the
    // range then has. `finish` writes sums that are the tile's own.
    unsafe {
        add_pairs(&mut sums, tile);
        add_terms(&mut sums, tile, tile.depth & !1..tile.depth);
        finish::<ROWS, 2, END>(&sums, tile, ends);
    }
}

/// # Safety
///
/// Like [`multiply_and`], with `R` rows and `V` vectors per row.
#[target_feature(enable = "avx512f")]
unsafe fn product<const R: usize, const V: usize, const END: bool>(
    tile: &Tile,
    ends: Option<&Ends>,
) {
    // SAFETY: `sums` has `R` rows of `COLUMNS` unless the tile is fresh: `product` demands it.
    let mut sums = unsafe { load::<R, V>(tile) };
    let steps = tile.depth / R;
    for r in 0..R {
        hint::<V>(&tile.hints, r);
        let end = if r + 1 < R { (r + 1) * steps } else { tile.depth };
        // SAFETY: `a` and `b` have `depth` terms, of which these are some: `product` demands it.
        unsafe { add_terms(&mut sums, tile, r * steps..end) };
    }
    // SAFETY: `R` rows of sums are the tile's own, and what `ends` names can be read: `product`
    // demands it.
    unsafe { finish::<R, V, END>(&sums, tile, ends) };
}

/// The sums so far.
///
/// # Safety
///
/// Like [`product`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load<const R: usize, const V: usize>(tile: &Tile) -> [[__m512; V]; R] {
    let mut sums = [[_mm512_setzero_ps(); V]; R];
    if !tile.fresh {
        for (r, row) in sums.iter_mut().enumerate() {
            for (v, sum) in row.iter_mut().enumerate() {
                let from = tile.sums.wrapping_add(r * tile.sums_pitch + v * LANES);
                // SAFETY: `sums` has `R` rows of `COLUMNS`: `multiply` demands it of tiles that are
                // not fresh.
                *sum = unsafe { _mm512_loadu_ps(from) };
            }
        }
    }
    sums
}

/// # Safety
///
/// Like [`product`], for terms below `depth`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_terms<const R: usize, const V: usize>(
    sums: &mut [[__m512; V]; R],
    tile: &Tile,
    terms: Range<usize>,
) {
    for k in terms {
        let next = tile.hints.next.wrapping_add(k * tile.hints.next_step / 2);
        _mm_prefetch::<_MM_HINT_T0>(next.cast());
        let mut b = [_mm512_setzero_ps(); V];
        for (v, b) in b.iter_mut().enumerate() {
            // SAFETY: `b` has `depth` rows of `COLUMNS`: `multiply` demands it.
            *b = unsafe { _mm512_loadu_ps(tile.b.add(k * COLUMNS + v * LANES)) };
        }
        for (r, row) in sums.iter_mut().enumerate() {
            // SAFETY: `a` has `R` rows of `depth`: `multiply` demands it.
            let a = _mm512_set1_ps(unsafe { *tile.a.add(r * tile.a_pitch + k) });
            for (sum, b) in row.iter_mut().zip(b) {
                *sum = _mm512_fmadd_ps(a, b, *sum);
            }
        }
    }
}

/// Brings row `r` of the output and the residual into the L2 cache.
#[inline]
#[target_feature(enable = "avx512f")]
fn hint<const V: usize>(hints: &Hints, r: usize) {
    for v in 0..V {
        let at = r * hints.pitch + v * LANES;
        _mm_prefetch::<_MM_HINT_ET1>(hints.output.wrapping_add(at).cast());
        _mm_prefetch::<_MM_HINT_T1>(hints.residual.wrapping_add(at).cast());
    }
}
