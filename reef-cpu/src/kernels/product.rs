//! The product of a [`Tile`]: in AVX-512 where the machine has it, else by the crate `gemm`.

#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::tile::{COLUMNS, ROWS, Tile};
use gemm::Parallelism;

/// Computes the product of `tile` with the widest instructions that the machine has.
///
/// # Safety
///
/// - `rows` rows of `depth` floats can be read at `a`, `depth` × [`COLUMNS`] at `b`.
/// - `rows` rows of [`COLUMNS`] floats at `sums` belong to the caller.
/// - Nobody writes `a` or `b`.
pub(super) unsafe fn multiply(tile: &Tile) {
    debug_assert!((1..=ROWS).contains(&tile.rows) && (1..=COLUMNS).contains(&tile.columns));
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the machine has AVX-512; the caller's promise.
        return unsafe { avx512::multiply(tile) };
    }
    // SAFETY: the caller's promise.
    unsafe { multiply_portably(tile) }
}

/// # Safety
///
/// As [`multiply`].
pub(super) unsafe fn multiply_portably(tile: &Tile) {
    // SAFETY: the caller's promise: strides and sizes describe the three operands.
    unsafe {
        gemm::gemm(
            tile.rows,
            COLUMNS,
            tile.depth,
            tile.sums,
            1,
            tile.sums_pitch as isize,
            !tile.fresh,
            tile.a,
            1,
            tile.a_pitch as isize,
            tile.b,
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

#[cfg(test)]
mod tests {
    use super::super::reference::Random;
    use super::super::tile::Hints;
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
                        unsafe { if fast { multiply(&tile) } else { multiply_portably(&tile) } };
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
