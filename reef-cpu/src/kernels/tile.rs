//! The innermost product: a few rows times one panel, with the sums in registers.
//!
//! ```text
//! sums[ROWS][COLUMNS] += a[ROWS][depth] · b[depth][COLUMNS]
//! ```
//!
//! `a` lies in memory as rows with any pitch, so pixels of a native tensor need no packing; `b` is a
//! packed panel. With AVX-512, 14 rows of two vectors take 28 of the 32 registers, and a step of the
//! sum is 28 multiply-adds for 16 loads, so the two multipliers and not the loads are the limit.

use gemm::Parallelism;

/// Most rows of a tile.
pub(super) const ROWS: usize = 14;
/// Columns of a panel.
pub(super) const COLUMNS: usize = 32;

/// Operands of one product.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile {
    pub a: *const f32,
    /// Floats from a row of `a` to the next.
    pub a_pitch: usize,
    /// A packed panel: `depth` rows of [`COLUMNS`].
    pub b: *const f32,
    pub sums: *mut f32,
    /// Floats from a row of `sums` to the next.
    pub sums_pitch: usize,
    /// From 1 to [`ROWS`].
    pub rows: usize,
    /// From 1 to [`COLUMNS`]: how many are needed. The others may be computed as well.
    pub columns: usize,
    /// Terms of each sum.
    pub depth: usize,
    /// Whether to forget what was in `sums` rather than add to it.
    pub fresh: bool,
    /// What will be needed later.
    pub hints: Hints,
}

/// What a tile's product brings near meanwhile, a line now and then so that the misses overlap with
/// its work. Nothing is read or written there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hints {
    /// Read soon: `depth` lines.
    pub next: *const f32,
    /// Written later: a panel's lines of `rows` rows.
    pub output: *const f32,
    /// Read later: as many.
    pub residual: *const f32,
    /// Floats from a row of both to the next.
    pub pitch: usize,
}

impl Tile {
    /// Computes it.
    ///
    /// # Safety
    ///
    /// - `rows` rows of `depth` floats can be read at `a`, `depth` × [`COLUMNS`] at `b`.
    /// - `rows` rows of [`COLUMNS`] floats at `sums` belong to the caller.
    /// - Nobody writes `a` or `b`.
    pub(super) unsafe fn multiply(&self) {
        debug_assert!((1..=ROWS).contains(&self.rows) && (1..=COLUMNS).contains(&self.columns));
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the machine has AVX-512; the caller's promise.
            return unsafe { avx512::multiply(self) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.multiply_portably() }
    }

    /// # Safety
    ///
    /// As [`multiply`](Self::multiply).
    pub(super) unsafe fn multiply_portably(&self) {
        // SAFETY: the caller's promise: strides and sizes describe the three operands.
        unsafe {
            gemm::gemm(
                self.rows,
                COLUMNS,
                self.depth,
                self.sums,
                1,
                self.sums_pitch as isize,
                !self.fresh,
                self.a,
                1,
                self.a_pitch as isize,
                self.b,
                1,
                COLUMNS as isize,
                1.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{COLUMNS, Hints, Tile};
    use std::arch::x86_64::*;
    use std::ops::Range;

    /// Floats of a vector.
    const LANES: usize = 16;

    /// # Safety
    ///
    /// As [`Tile::multiply`](super::Tile::multiply).
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn multiply(tile: &Tile) {
        if tile.columns > LANES {
            // SAFETY: the caller's promise.
            unsafe { by_rows::<2>(tile) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { by_rows::<1>(tile) }
        }
    }

    /// # Safety
    ///
    /// As [`multiply`].
    #[target_feature(enable = "avx512f")]
    unsafe fn by_rows<const VECTORS: usize>(tile: &Tile) {
        macro_rules! rows {
            ($($rows:literal)*) => {
                match tile.rows {
                    // SAFETY: the caller's promise, and the tile has this many rows.
                    $($rows => unsafe { product::<$rows, VECTORS>(tile) },)*
                    rows => unreachable!("{rows} rows in a tile"),
                }
            };
        }
        rows!(1 2 3 4 5 6 7 8 9 10 11 12 13 14)
    }

    /// # Safety
    ///
    /// As [`multiply`], with `R` rows and `V` vectors per row.
    #[target_feature(enable = "avx512f")]
    unsafe fn product<const R: usize, const V: usize>(tile: &Tile) {
        let mut sums = [[_mm512_setzero_ps(); V]; R];
        if !tile.fresh {
            for (r, row) in sums.iter_mut().enumerate() {
                for (v, sum) in row.iter_mut().enumerate() {
                    // SAFETY: `sums` has `R` rows of `COLUMNS`.
                    *sum =
                        unsafe { _mm512_loadu_ps(tile.sums.add(r * tile.sums_pitch + v * LANES)) };
                }
            }
        }
        let steps = tile.depth / R;
        for r in 0..R {
            hint::<V>(&tile.hints, r);
            let end = if r + 1 < R { (r + 1) * steps } else { tile.depth };
            // SAFETY: the caller's promise, and these are some of the `depth` terms.
            unsafe { add_terms(&mut sums, tile, r * steps..end) };
        }
        for (r, row) in sums.iter().enumerate() {
            for (v, &sum) in row.iter().enumerate() {
                // SAFETY: as for the loads above, and the sums are the caller's.
                unsafe { _mm512_storeu_ps(tile.sums.add(r * tile.sums_pitch + v * LANES), sum) };
            }
        }
    }

    /// # Safety
    ///
    /// As [`product`], for terms below `depth`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn add_terms<const R: usize, const V: usize>(
        sums: &mut [[__m512; V]; R],
        tile: &Tile,
        terms: Range<usize>,
    ) {
        for k in terms {
            _mm_prefetch::<_MM_HINT_T0>(tile.hints.next.wrapping_add(k * LANES).cast());
            let mut b = [_mm512_setzero_ps(); V];
            for (v, b) in b.iter_mut().enumerate() {
                // SAFETY: `b` has `depth` rows of `COLUMNS`.
                *b = unsafe { _mm512_loadu_ps(tile.b.add(k * COLUMNS + v * LANES)) };
            }
            for (r, row) in sums.iter_mut().enumerate() {
                // SAFETY: `a` has `R` rows of `depth`.
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
}

#[cfg(test)]
mod tests {
    use super::super::reference::Random;
    use super::*;

    #[test]
    fn every_size_agrees_with_the_portable_product() {
        let mut random = Random::new(7);
        for rows in 1..=ROWS {
            for columns in [16, 32] {
                let (depth, a_pitch, sums_pitch) = (1 + random.below(40), 50, 40);
                let [a, b, old] = [ROWS * 50, 40 * COLUMNS, ROWS * 40].map(|n| random.floats(n));
                for fresh in [false, true] {
                    let product = |fast: bool| {
                        let mut sums = old.clone();
                        let tile = Tile {
                            a: a.as_ptr(),
                            a_pitch,
                            b: b.as_ptr(),
                            sums: sums.as_mut_ptr(),
                            sums_pitch,
                            rows,
                            columns,
                            depth,
                            fresh,
                            hints: Hints {
                                next: b.as_ptr(),
                                output: b.as_ptr(),
                                residual: b.as_ptr(),
                                pitch: 0,
                            },
                        };
                        // SAFETY: the three vectors are as large as the tile says.
                        unsafe { if fast { tile.multiply() } else { tile.multiply_portably() } };
                        (0..rows * columns)
                            .map(|i| sums[i / columns * sums_pitch + i % columns])
                            .collect::<Vec<_>>()
                    };
                    for (fast, portable) in product(true).into_iter().zip(product(false)) {
                        assert!((fast - portable).abs() < 1e-4, "{fast}, not {portable}");
                    }
                }
            }
        }
    }
}
