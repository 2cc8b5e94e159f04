//! Sums of products in loops that compilers find vectors in.

use crate::kernels::values::simd::widest;

/// Sums that stay in registers while terms are added.
pub(super) const WIDE: usize = 64;
/// Sums of one vector register.
pub(super) const NARROW: usize = 16;

/// `N` outputs side by side: for each term a factor, and where its values begin.
#[inline(always)]
pub(super) fn sums<const N: usize>(
    values: &[f32],
    terms: impl Iterator<Item = (f32, usize)>,
) -> [f32; N] {
    let mut sums = [0.0; N];
    for (factor, at) in terms {
        let values: &[f32; N] = values[at..at + N].try_into().expect("as many");
        for (sum, x) in sums.iter_mut().zip(values) {
            *sum += factor * x;
        }
    }
    sums
}

/// The sum of products of both, which are as long as each other.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; WIDE];
    widest(
        #[inline(always)]
        || {
            let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<WIDE>(), b.as_chunks::<WIDE>());
            for (a, b) in a.iter().zip(b) {
                for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
                    *lane += a * b;
                }
            }
            for (lane, (a, b)) in lanes.iter_mut().zip(rest_a.iter().zip(rest_b)) {
                *lane += a * b;
            }
        },
    );
    lanes.iter().sum()
}
