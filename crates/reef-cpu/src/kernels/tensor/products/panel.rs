//! Columns and rows of an input as the product of a tile wants them.

#[cfg(target_arch = "x86_64")]
use super::gathered;
use crate::kernels::product::tile::COLUMNS;
#[cfg(target_arch = "x86_64")]
use crate::kernels::product::tile::LINE;
use crate::kernels::values::simd::widest;

/// Terms that are asked for ahead while a panel is packed.
const AHEAD: usize = 16;

/// Returns whether each place is the one after the one before.
pub(super) fn is_run(places: impl Iterator<Item = usize> + Clone) -> bool {
    places.clone().zip(places.skip(1)).all(|(place, next)| next == place + 1)
}

/// Lays terms of columns out as the product of a tile wants them, with zeros for columns that there
/// are not.
pub(super) fn pack_panel(
    from: &[f32],
    terms: &[[usize; 2]],
    columns: &[[usize; 2]],
    panel: &mut [f32],
) {
    let panel = panel.as_chunks_mut::<COLUMNS>().0;
    let in_one = is_run(columns.iter().map(|column| column[0]));
    if in_one && columns.len() == COLUMNS {
        return pack_whole(&from[columns[0][0]..], terms, panel);
    }
    #[cfg(target_arch = "x86_64")]
    if !in_one && is_x86_feature_detected!("avx512f") {
        // SAFETY: the machine has AVX-512.
        return unsafe { gathered::pack(from, terms, columns, panel) };
    }
    for (term, to) in terms.iter().zip(panel) {
        let from = &from[term[1]..];
        let (to, none) = to.split_at_mut(columns.len());
        none.fill(0.0);
        if in_one {
            to.copy_from_slice(&from[columns[0][0]..][..to.len()]);
        } else {
            to.iter_mut().zip(columns).for_each(|(to, column)| *to = from[column[0]]);
        }
    }
}

/// Like [`pack_panel`], of columns that lie side by side. Terms lie too far apart for the processor
/// to guess where the next one is, so it is told.
fn pack_whole(from: &[f32], terms: &[[usize; 2]], panel: &mut [[f32; COLUMNS]]) {
    widest(
        #[inline(always)]
        || {
            for (k, (term, to)) in terms.iter().zip(panel).enumerate() {
                if let Some(next) = terms.get(k + AHEAD) {
                    prefetch(&from[next[1]..][..COLUMNS]);
                }
                to.copy_from_slice(&from[term[1]..][..COLUMNS]);
            }
        },
    );
}

/// Asks for the cache lines of `row`.
#[inline(always)]
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "others aren't asked"))]
fn prefetch(row: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in row.chunks(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it reads nothing that the program could see, and the address is that of an
        // element.
        unsafe { _mm_prefetch(line.as_ptr().cast(), _MM_HINT_T0) };
    }
}

/// Lays terms of rows out side by side, `pitch` floats from row to row.
pub(super) fn pack_rows(
    from: &[f32],
    terms: &[[usize; 2]],
    rows: &[[usize; 2]],
    packed: &mut [f32],
    pitch: usize,
) {
    for (row, to) in rows.iter().zip(packed.chunks_mut(pitch)) {
        let from = &from[row[0]..];
        to.iter_mut().zip(terms).for_each(|(to, term)| *to = from[term[0]]);
    }
}
