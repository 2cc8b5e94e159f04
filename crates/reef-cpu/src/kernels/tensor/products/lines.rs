//! Lines of outputs with AVX-512: sums of a value for each output times a factor for all of them.

use super::window::Window;
use crate::kernels::values::lanes::{LANES, lanes};
use std::arch::x86_64::*;
use std::ops::Range;

/// Operands of lines of outputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// Largest place of all terms, for all of the lines.
    pub(super) factors: &'a [f32],
    pub(super) values: &'a [f32],
    /// Place of each term's factor, and of its value for the first output of a line that begins at
    /// 0.
    pub(super) terms: &'a [[usize; 2]],
    /// The largest of each.
    pub(super) reach: [usize; 2],
    /// The terms as a window, if they see one.
    pub(super) window: Option<Window>,
}

/// Writes lines that begin in these values, one after the other, and are of one size.
///
/// # Panics
///
/// If a factor or a value is not there, or there are more than [`LINES`](super::window::LINES)
/// lines.
#[target_feature(enable = "avx512f")]
pub(super) fn lines(line: &Line<'_>, starts: &[usize], to: &mut [f32]) {
    let len = to.len() / starts.len();
    let last = starts.iter().max().map_or(0, |start| start + line.reach[1] + len);
    assert!(line.reach[0] < line.factors.len() && last <= line.values.len(), "{starts:?}");
    let below = |window: &Window| starts.windows(2).all(|two| two[0] + window.down == two[1]);
    match line.window.filter(below) {
        Some(window) => {
            for at in (0..len).step_by(2 * LANES) {
                windows(line, window, starts, at, to);
            }
        }
        None => {
            for (starts, to) in starts.chunks(4).zip(to.chunks_mut(4 * len)) {
                apart(line, starts, len, to);
            }
        }
    }
}

/// Lines of `len` outputs that begin anywhere, four together.
#[target_feature(enable = "avx512f")]
fn apart(line: &Line<'_>, starts: &[usize], len: usize, to: &mut [f32]) {
    for at in (0..len).step_by(2 * LANES) {
        match (starts, len - at > LANES) {
            (&[a, b, c, d], true) => put::<4, 2>(line, [a, b, c, d], at, to),
            (&[a, b, c, d], false) => put::<4, 1>(line, [a, b, c, d], at, to),
            (_, wide) => {
                for (&start, to) in starts.iter().zip(to.chunks_exact_mut(len)) {
                    if wide {
                        put::<1, 2>(line, [start], at, to);
                    } else {
                        put::<1, 1>(line, [start], at, to);
                    }
                }
            }
        }
    }
}

/// `V` vectors of each of `L` lines, from output `at` of theirs on; what lies beyond a line is left
/// out.
#[target_feature(enable = "avx512f")]
fn put<const L: usize, const V: usize>(
    line: &Line<'_>,
    starts: [usize; L],
    at: usize,
    to: &mut [f32],
) {
    let len = to.len() / L;
    let masks: [__mmask16; V] = std::array::from_fn(|v| lanes(len.saturating_sub(at + v * LANES)));
    let from = starts.map(|start| line.values.as_ptr().wrapping_add(start + at));
    let mut sums = [[_mm512_setzero_ps(); V]; L];
    for &[factor, value] in line.terms {
        // SAFETY: `factor` is at most the largest of all terms, which `lines` has found inside.
        let factor = _mm512_set1_ps(unsafe { *line.factors.as_ptr().add(factor) });
        for (sums, from) in sums.iter_mut().zip(from) {
            for (v, sum) in sums.iter_mut().enumerate() {
                // SAFETY: `lines` has found the values of all outputs inside, for the last start
                // and the largest term. The mask leaves out what is beyond a line.
                let x = unsafe {
                    _mm512_maskz_loadu_ps(masks[v], from.wrapping_add(value + v * LANES))
                };
                *sum = _mm512_fmadd_ps(x, factor, *sum);
            }
        }
    }
    store(sums, masks, at, to);
}

/// Like [`put`], of lines whose windows lie one line of values below each other.
#[target_feature(enable = "avx512f")]
fn windows(line: &Line<'_>, window: Window, starts: &[usize], at: usize, to: &mut [f32]) {
    let wide = to.len() / starts.len() - at > LANES;
    macro_rules! of {
        ($($lines:literal)*) => {
            match (starts.len(), wide) {
                $(
                    ($lines, false) => down::<$lines, 1>(line, window, starts[0], at, to),
                    ($lines, true) => down::<$lines, 2>(line, window, starts[0], at, to),
                )*
                (lines, _) => unreachable!("{lines} lines at once"),
            }
        };
    }
    of!(1 2 3 4 5 6 7 8)
}

/// `V` vectors of each of `L` lines. A line of values is read once for all outputs that see it.
#[target_feature(enable = "avx512f")]
fn down<const L: usize, const V: usize>(
    line: &Line<'_>,
    Window { rows, columns, down }: Window,
    start: usize,
    at: usize,
    to: &mut [f32],
) {
    let len = to.len() / L;
    let masks: [__mmask16; V] = std::array::from_fn(|v| lanes(len.saturating_sub(at + v * LANES)));
    let mut sums = [[_mm512_setzero_ps(); V]; L];
    for seen in 0..rows + L - 1 {
        let from = line.values.as_ptr().wrapping_add(start + at + seen * down);
        // Line `l` sees it as its row `seen - l`.
        let Range { start: first, end } = (seen + 1).saturating_sub(rows)..L.min(seen + 1);
        let factors = line.factors.as_ptr().wrapping_add(seen * columns);
        for column in 0..columns {
            let mut x = [_mm512_setzero_ps(); V];
            for (v, x) in x.iter_mut().enumerate() {
                let from = from.wrapping_add(column + v * LANES);
                // SAFETY: `lines` has found the last line's window inside of the values, and this
                // is a row of some line's; the mask leaves out what is beyond a line.
                *x = unsafe { _mm512_maskz_loadu_ps(masks[v], from) };
            }
            for (l, sums) in sums.iter_mut().enumerate() {
                if l < first || l >= end {
                    continue;
                }
                // SAFETY: row `seen - l` of the window is one of its rows, whose factors are
                // inside.
                let factor = unsafe { *factors.wrapping_sub(l * columns).add(column) };
                for (sum, x) in sums.iter_mut().zip(x) {
                    *sum = _mm512_fmadd_ps(x, _mm512_set1_ps(factor), *sum);
                }
            }
        }
    }
    store(sums, masks, at, to);
}

/// Writes vectors of lines from output `at` of each on.
#[inline]
#[target_feature(enable = "avx512f")]
fn store<const L: usize, const V: usize>(
    sums: [[__m512; V]; L],
    masks: [__mmask16; V],
    at: usize,
    to: &mut [f32],
) {
    let len = to.len() / L;
    for (sums, to) in sums.iter().zip(to.chunks_exact_mut(len)) {
        for (v, &sum) in sums.iter().enumerate() {
            let to = to.as_mut_ptr().wrapping_add(at + v * LANES);
            // SAFETY: the mask leaves out what is beyond the line.
            unsafe { _mm512_mask_storeu_ps(to, masks[v], sum) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::tensor::products::window::LINES;

    /// Terms of a window of three by five over lines of 20 values.
    fn terms() -> Vec<[usize; 2]> {
        (0..15).map(|k| [k, k / 5 * 20 + k % 5]).collect()
    }

    #[test]
    fn windows_below_each_other_have_the_bits_of_single_lines() {
        if !is_x86_feature_detected!("avx512f") {
            return reef_conformance::skip("no AVX-512");
        }
        let value = |k: usize| (k as f32 * 0.71).sin();
        let (factors, values): (Vec<_>, Vec<_>) =
            ((0..15).map(value).collect(), (0..800).map(value).collect());
        let terms = terms();
        for len in [1, 7, 16, 17, 32, 60] {
            for count in 1..=LINES {
                let window = Window::of(&terms);
                let line = Line {
                    factors: &factors,
                    values: &values,
                    terms: &terms,
                    reach: [14, 44],
                    window,
                };
                let starts: Vec<usize> = (0..count).map(|k| 3 + 20 * k).collect();
                let made = |line: &Line<'_>| {
                    let mut made = vec![f32::NAN; count * len];
                    // SAFETY: the machine has AVX-512.
                    unsafe { lines(line, &starts, &mut made) };
                    made.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                };
                assert_eq!(made(&line), made(&Line { window: None, ..line }), "{count} of {len}");
            }
        }
    }
}
