//! A square that changes rows and columns, with AVX-512.

use std::arch::x86_64::*;

/// Rows and columns.
pub(super) const TILE: usize = 16;

/// Turns `tile`: pairs of singles, of doubles, of quarters and of halves change places.
#[target_feature(enable = "avx512f")]
pub(super) fn turn(tile: &mut [[f32; TILE]; TILE]) {
    let mut a = [_mm512_setzero_ps(); TILE];
    let mut b = a;
    for (a, row) in a.iter_mut().zip(&*tile) {
        // SAFETY: a row has `TILE` floats, as many as a vector.
        *a = unsafe { _mm512_loadu_ps(row.as_ptr()) };
    }
    for i in (0..TILE).step_by(2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    for i in (0..TILE).step_by(4) {
        for k in 0..2 {
            let pair = [_mm512_castps_pd(b[i + k]), _mm512_castps_pd(b[i + k + 2])];
            a[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(pair[0], pair[1]));
            a[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(pair[0], pair[1]));
        }
    }
    for i in [0, 1, 2, 3, 8, 9, 10, 11] {
        b[i] = _mm512_shuffle_f32x4::<0x88>(a[i], a[i + 4]);
        b[i + 4] = _mm512_shuffle_f32x4::<0xdd>(a[i], a[i + 4]);
    }
    for i in 0..TILE / 2 {
        a[i] = _mm512_shuffle_f32x4::<0x88>(b[i], b[i + 8]);
        a[i + 8] = _mm512_shuffle_f32x4::<0xdd>(b[i], b[i + 8]);
    }
    for (a, row) in a.iter().zip(tile) {
        // SAFETY: a row has `TILE` floats, as many as a vector.
        unsafe { _mm512_storeu_ps(row.as_mut_ptr(), *a) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_changes_row_and_column() {
        if !is_x86_feature_detected!("avx512f") {
            return reef_conformance::skip("no AVX-512");
        }
        let mut tile = [[0.0; TILE]; TILE];
        let all = || (0..TILE).flat_map(|row| (0..TILE).map(move |column| (row, column)));
        all().for_each(|(row, column)| tile[row][column] = (row * 100 + column) as f32);
        // SAFETY: the machine has AVX-512.
        unsafe { turn(&mut tile) };
        for (row, column) in all() {
            assert_eq!(tile[row][column], (column * 100 + row) as f32, "{row}, {column}");
        }
    }
}
