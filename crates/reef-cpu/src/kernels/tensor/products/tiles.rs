//! The product of a tile, of slices.

use crate::kernels::product::multiply::multiply;
use crate::kernels::product::tile::{COLUMNS, Hints, ROWS, Tile};

/// Rows that lie `pitch` floats apart.
pub(in crate::kernels::tensor) struct Pitched<T> {
    pub(in crate::kernels::tensor) floats: T,
    pub(in crate::kernels::tensor) pitch: usize,
}

/// `to = a · panel`, or `to += a · panel` unless `fresh`, of `rows` rows and `depth` terms; `panel`
/// has [`COLUMNS`] columns, of which `columns` are needed.
///
/// # Panics
///
/// If a slice is shorter than that, or there are more rows or columns than a tile has.
pub(in crate::kernels::tensor) fn multiply_tile(
    a: &Pitched<&[f32]>,
    panel: &[f32],
    to: &mut Pitched<&mut [f32]>,
    [rows, columns, depth]: [usize; 3],
    fresh: bool,
) {
    let fits = (1..=ROWS).contains(&rows)
        && (1..=COLUMNS).contains(&columns)
        && (rows - 1) * a.pitch + depth <= a.floats.len()
        && depth * COLUMNS <= panel.len()
        && (rows - 1) * to.pitch + COLUMNS <= to.floats.len();
    assert!(fits, "{rows} rows of {depth} terms");
    let sums = to.floats.as_mut_ptr();
    let hints = Hints {
        next: panel.as_ptr(),
        next_step: 0,
        rows: a.floats.as_ptr(),
        rows_pitch: a.pitch,
        output: sums,
        residual: sums,
        pitch: to.pitch,
    };
    let tile = Tile {
        a: a.floats.as_ptr(),
        a_pitch: a.pitch,
        b: panel.as_ptr(),
        sums,
        sums_pitch: to.pitch,
        rows,
        columns,
        depth,
        fresh,
        hints,
    };
    // SAFETY: the slices are as long as the tile says, as was just checked.
    unsafe { multiply(&tile) };
}
