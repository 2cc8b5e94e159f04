//! Columns that lie apart as a panel, with AVX-512.

use crate::kernels::product::tile::COLUMNS;
use crate::kernels::values::lanes::LANES;
use std::arch::x86_64::*;

/// Lays terms of columns out in a row of [`COLUMNS`] each, with zeros for columns that there are
/// not. `terms` and `columns` say where each lies, in their second and first place.
///
/// # Panics
///
/// If one of them is not there, or there are more columns than a panel has.
#[target_feature(enable = "avx512f")]
pub(super) fn pack(
    from: &[f32],
    terms: &[[usize; 2]],
    columns: &[[usize; 2]],
    panel: &mut [[f32; COLUMNS]],
) {
    let last = |places: &[[usize; 2]], k: usize| places.iter().map(|place| place[k]).max();
    let reach = last(terms, 1).unwrap_or(0) + last(columns, 0).unwrap_or(0);
    assert!(reach < from.len() && columns.len() <= COLUMNS, "{} columns", columns.len());
    let (mut places, mut masks) = ([[0i64; LANES / 2]; 4], [0u8; 4]);
    for (k, column) in columns.iter().enumerate() {
        places[k / 8][k % 8] = column[0] as i64;
        masks[k / 8] |= 1 << (k % 8);
    }
    for (term, to) in terms.iter().zip(panel) {
        let from = from.as_ptr().wrapping_add(term[1]);
        for (k, (places, mask)) in places.iter().zip(masks).enumerate() {
            // SAFETY: there are eight places, and as many floats; each place that the mask names is
            // inside, as was found above.
            unsafe {
                let places = _mm512_loadu_si512(places.as_ptr().cast());
                let zeros = _mm256_setzero_ps();
                let row = _mm512_mask_i64gather_ps::<4>(zeros, mask, places, from);
                _mm256_storeu_ps(to.as_mut_ptr().add(8 * k), row);
            }
        }
    }
}
