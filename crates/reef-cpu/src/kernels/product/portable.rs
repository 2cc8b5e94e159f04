//! The product of a [`Tile`] without instructions of our own choice: groups of four floats, which
//! compilers keep in vector registers on any machine.

use super::tile::{COLUMNS, Tile};
use std::ops::Range;

/// Most rows whose sums are in registers at once.
pub(in crate::kernels) const PART: usize = 6;

/// Floats of a group.
const LANES: usize = 4;
/// Groups of a row whose sums are in registers.
const GROUPS: usize = 2;

/// Cuts rows into ranges of at most [`PART`], of almost the same length.
pub(in crate::kernels) fn parts(rows: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = rows.div_ceil(PART);
    (0..parts).map(move |part| rows * part / parts..rows * (part + 1) / parts)
}

/// Calls `product` with the number of a part's rows as its parameter.
macro_rules! product_of_rows {
    ($tile:expr, $rows:expr, $column:expr) => {
        product_of_rows!($tile, $rows, $column, 1 2 3 4 5 6)
    };
    ($tile:expr, $rows:expr, $column:expr, $($length:literal)*) => {
        match $rows.len() {
            // SAFETY: the tile's operands are as large as it says: `multiply` demands it. These are
            // some of its rows, and what is computed of a row begins at `column` and ends in
            // `COLUMNS`.
            $($length => unsafe { product::<$length>($tile, $rows.start, $column) },)*
            rows => unreachable!("{rows} rows in a part"),
        }
    };
}
const _: () = assert!(PART == 6);
#[cfg(target_arch = "x86_64")]
pub(in crate::kernels) use product_of_rows;

/// # Safety
///
/// Like [`multiply`](super::multiply::multiply).
pub(in crate::kernels) unsafe fn multiply(tile: &Tile) {
    for rows in parts(tile.rows) {
        for column in (0..tile.columns).step_by(GROUPS * LANES) {
            product_of_rows!(tile, rows, column);
        }
    }
}

/// # Safety
///
/// Like [`multiply`]; `R` rows from `row` and two groups from `column` lie in the tile.
#[inline]
unsafe fn product<const R: usize>(tile: &Tile, row: usize, column: usize) {
    let mut sums = [[[0.0; LANES]; GROUPS]; R];
    // SAFETY: `R` rows of `COLUMNS` sums from `row` on are there, and two groups from `column` on
    // lie in them: `product` demands it.
    let group = |r: usize, v: usize| unsafe {
        tile.sums.add((row + r) * tile.sums_pitch + column + v * LANES).cast::<[f32; LANES]>()
    };
    if !tile.fresh {
        for (r, sums) in sums.iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                // SAFETY: inside of the sums; arrays of floats need no more alignment than floats.
                *sum = unsafe { group(r, v).read() };
            }
        }
    }
    for k in 0..tile.depth {
        for v in 0..GROUPS {
            // SAFETY: `b` has `depth` rows of `COLUMNS`: `multiply` demands it.
            let b: [f32; LANES] = unsafe {
                tile.b.add(k * COLUMNS + column + v * LANES).cast::<[f32; LANES]>().read()
            };
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: `a` has `row + R` rows of `depth`: `multiply` demands it of all rows.
                let a = unsafe { *tile.a.add((row + r) * tile.a_pitch + k) };
                sums[v] = add_product(sums[v], a, b);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            // SAFETY: inside of the sums, which nothing else writes: `multiply` demands it.
            unsafe { group(r, v).write(sum) };
        }
    }
}

/// `sum + a · b`. Four lines rather than a loop over lanes: compilers find the vector in them.
#[inline]
fn add_product(sum: [f32; LANES], a: f32, b: [f32; LANES]) -> [f32; LANES] {
    // Where every machine has it, it is one instruction; elsewhere it would be a call.
    let has_fma = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
    let add = |sum: f32, b: f32| if has_fma { a.mul_add(b, sum) } else { sum + a * b };
    [add(sum[0], b[0]), add(sum[1], b[1]), add(sum[2], b[2]), add(sum[3], b[3])]
}
