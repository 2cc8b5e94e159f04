//! Lines of outputs with AVX-512: sums of a value for each output times a factor for all of them.

use std::arch::x86_64::*;

/// Floats of a vector.
const LANES: usize = 16;

/// What lines of outputs are made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// Of all terms, for all of the lines.
    pub(super) factors: &'a [f32],
    pub(super) values: &'a [f32],
    /// Where the factor of each term lies, and its value for the first output of a line that begins at 0.
    pub(super) terms: &'a [[usize; 2]],
    /// The largest of each.
    pub(super) reach: [usize; 2],
}

/// Writes lines that begin in these values, one after the other, and are of one size.
///
/// # Panics
///
/// If a factor or a value is not there.
#[target_feature(enable = "avx512f")]
pub(super) fn lines(line: &Line<'_>, starts: &[usize], to: &mut [f32]) {
    let len = to.len() / starts.len();
    let last = starts.iter().max().map_or(0, |start| start + line.reach[1] + len);
    assert!(line.reach[0] < line.factors.len() && last <= line.values.len(), "{starts:?}");
    for at in (0..len).step_by(2 * LANES) {
        let count = (len - at).min(2 * LANES);
        match (starts, count > LANES) {
            (&[a, b, c, d], true) => put::<4, 2>(line, [a, b, c, d], at, to),
            (&[a, b, c, d], false) => put::<4, 1>(line, [a, b, c, d], at, to),
            (_, wide) => {
                for (&start, to) in starts.iter().zip(to.chunks_exact_mut(len)) {
                    match wide {
                        true => put::<1, 2>(line, [start], at, to),
                        false => put::<1, 1>(line, [start], at, to),
                    }
                }
            }
        }
    }
}

/// `V` vectors of each of `L` lines, from output `at` of theirs on; what lies beyond a line is left out.
#[target_feature(enable = "avx512f")]
fn put<const L: usize, const V: usize>(
    line: &Line<'_>,
    starts: [usize; L],
    at: usize,
    to: &mut [f32],
) {
    let len = to.len() / L;
    let masks: [__mmask16; V] = std::array::from_fn(|v| {
        let left = len.saturating_sub(at + v * LANES).min(LANES);
        ((1u32 << left) - 1) as __mmask16
    });
    let from = starts.map(|start| line.values.as_ptr().wrapping_add(start + at));
    let mut sums = [[_mm512_setzero_ps(); V]; L];
    for &[factor, value] in line.terms {
        // SAFETY: `factor` is at most the reach, which the caller found to be inside.
        let factor = _mm512_set1_ps(unsafe { *line.factors.as_ptr().add(factor) });
        for (sums, from) in sums.iter_mut().zip(from) {
            for (v, sum) in sums.iter_mut().enumerate() {
                // SAFETY: a line begins, and `value` reaches, so far that all of its outputs' values are inside, as the
                // caller found; the mask leaves out others.
                let x = unsafe {
                    _mm512_maskz_loadu_ps(masks[v], from.wrapping_add(value + v * LANES))
                };
                *sum = _mm512_fmadd_ps(x, factor, *sum);
            }
        }
    }
    for (sums, to) in sums.iter().zip(to.chunks_exact_mut(len)) {
        for (v, &sum) in sums.iter().enumerate() {
            let to = to.as_mut_ptr().wrapping_add(at + v * LANES);
            // SAFETY: the mask leaves out what is beyond the line.
            unsafe { _mm512_mask_storeu_ps(to, masks[v], sum) };
        }
    }
}
