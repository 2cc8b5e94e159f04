//! The product of a [`Tile`], with the widest vectors that the machine has.

#[cfg(target_arch = "x86_64")]
use super::avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::tiles as avx512;
use super::portable;
use super::tile::{COLUMNS, ROWS, Tile};

/// Computes the product of `tile` with the widest instructions that the machine has.
///
/// # Safety
///
/// - `rows` rows of `depth` floats can be read at `a`, `depth` × [`COLUMNS`] at `b`.
/// - `rows` rows of [`COLUMNS`] floats at `sums` belong to the caller.
/// - `a` and `b` aren't written meanwhile.
pub(in crate::kernels) unsafe fn multiply(tile: &Tile) {
    debug_assert!((1..=ROWS).contains(&tile.rows) && (1..=COLUMNS).contains(&tile.columns));
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the machine has AVX-512. The tile's operands are as large as it says, and nothing
        // else writes them: `multiply` demands it.
        return unsafe { avx512::multiply(tile) };
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the machine has AVX2 and FMA. The tile's operands are as large as it says, and
        // nothing else writes them: `multiply` demands it.
        return unsafe { avx2::multiply(tile) };
    }
    // SAFETY: the tile's operands are as large as it says, and nothing else writes them: `multiply`
    // demands it.
    unsafe { portable::multiply(tile) }
}

#[cfg(test)]
mod tests {
    use super::super::tile::Hints;
    use super::*;
    use crate::kernels::tests::reference::Random;

    type Multiply = unsafe fn(&Tile);

    /// All that this machine can run.
    fn products() -> Vec<(&'static str, Multiply)> {
        let mut products: Vec<(_, Multiply)> =
            vec![("portable", portable::multiply), ("widest", multiply)];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the machine has both, and the test below gives vectors that are as large as
            // the tile says.
            products.push(("avx2", |tile| unsafe { avx2::multiply(tile) }));
        }
        products
    }

    #[test]
    fn every_size_agrees_with_plain_loops() {
        let mut random = Random::new(7);
        // Full tiles often: their loop depends on how the depth divides.
        for rows in (1..=ROWS).chain([ROWS; 60]) {
            for columns in [16, 32] {
                let (depth, a_pitch, sums_pitch) = (1 + random.below(70), 80, 40);
                let [a, b, old] = [ROWS * 80, 70 * COLUMNS, ROWS * 40].map(|n| random.floats(n));
                for fresh in [false, true] {
                    let mut want = old.clone();
                    for (row, column) in (0..rows * columns).map(|i| (i / columns, i % columns)) {
                        let term = |k| a[row * a_pitch + k] * b[k * COLUMNS + column];
                        let sum: f32 = (0..depth).map(term).sum();
                        let at = &mut want[row * sums_pitch + column];
                        *at = if fresh { sum } else { *at + sum };
                    }
                    for (name, multiply) in products() {
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
                                next_step: 0,
                                rows: a.as_ptr(),
                                rows_pitch: a_pitch,
                                output: b.as_ptr(),
                                residual: b.as_ptr(),
                                pitch: 0,
                            },
                        };
                        // SAFETY: the three vectors are as large as the tile says.
                        unsafe { multiply(&tile) };
                        for (have, want) in sums.into_iter().zip(&want) {
                            assert!((have - want).abs() < 1e-4, "{name}: {have}, not {want}");
                        }
                    }
                }
            }
        }
    }
}
