//! Panels of columns that lie evenly apart.

use crate::kernels::product::tile::COLUMNS;
use crate::kernels::values::simd::widest;

/// Number of columns or terms, and their distance in floats.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels::tensor) struct Axis {
    pub(in crate::kernels::tensor) len: usize,
    pub(in crate::kernels::tensor) stride: usize,
}

/// Lays terms of columns out as the product of a tile wants them, with zeros for missing columns.
pub(in crate::kernels::tensor) fn pack_columns(
    from: &[f32],
    columns: Axis,
    terms: Axis,
    panel: &mut [f32],
) {
    let Axis { len: columns, stride: apart } = columns;
    let Axis { len: terms, stride } = terms;
    let panel = &mut panel.as_chunks_mut::<COLUMNS>().0[..terms];
    if columns < COLUMNS {
        panel.as_flattened_mut().fill(0.0);
    }
    widest(
        #[inline(always)]
        || match (apart, stride) {
            (1, _) => {
                for (term, to) in panel.iter_mut().enumerate() {
                    to[..columns].copy_from_slice(&from[term * stride..][..columns]);
                }
            }
            (_, 1) => {
                for column in 0..columns {
                    let from = &from[column * apart..][..terms];
                    from.iter().zip(&mut *panel).for_each(|(&x, to)| to[column] = x);
                }
            }
            _ => {
                for (term, to) in panel.iter_mut().enumerate() {
                    let from = &from[term * stride..];
                    to.iter_mut()
                        .take(columns)
                        .enumerate()
                        .for_each(|(k, to)| *to = from[k * apart]);
                }
            }
        },
    );
}
