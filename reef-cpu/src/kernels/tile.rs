//! The innermost product: a few rows times one panel, with the sums in registers.
//!
//! ```text
//! sums[ROWS][COLUMNS] += a[ROWS][depth] · b[depth][COLUMNS]
//! ```
//!
//! `a` lies in memory as rows with any pitch, so pixels of a native tensor need no packing; `b` is a
//! packed panel. With AVX-512, 14 rows of two vectors take 28 of the 32 registers, and a step of the
//! sum is 28 multiply-adds for 16 loads, so the two multipliers and not the loads are the limit.

#[cfg(target_arch = "x86_64")]
use super::avx512;
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

#[cfg(test)]
mod tests {
    use super::super::reference::Random;
    use super::*;

    #[test]
    fn every_size_agrees_with_the_portable_product() {
        let mut random = Random::new(7);
        // Full tiles often: their loop depends on how the depth divides.
        for rows in (1..=ROWS).chain([ROWS; 60]) {
            for columns in [16, 32] {
                let (depth, a_pitch, sums_pitch) = (1 + random.below(70), 80, 40);
                let [a, b, old] = [ROWS * 80, 70 * COLUMNS, ROWS * 40].map(|n| random.floats(n));
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
