//! Terms with AVX-512: sixteen outputs at a time, the last ones by a mask.

use super::access_pattern::Operand;
use crate::kernels::values::functions::{ERF_FAR, ERF_NEAR};
use crate::kernels::values::lanes::{LANES, lanes};
use crate::kernels::values::sigmoid::exp;
use reef_op::tensor::{Binary, Unary};
use std::arch::x86_64::*;

/// Computes a function of each of `x`; false if it has no vectors here.
#[target_feature(enable = "avx512f")]
pub(super) fn unary(function: Unary, x: &[f32], to: &mut [f32]) -> bool {
    match function {
        Unary::Abs => each(x, to, |x| _mm512_abs_ps(x)),
        Unary::Sqrt => each(x, to, |x| _mm512_sqrt_ps(x)),
        Unary::Exp => each(x, to, |x| power(x)),
        Unary::Erf => each(x, to, |x| erf(x)),
        _ => return false,
    }
    true
}

/// Returns whether multiplying by `1 / y` equals dividing by `y`: true for powers of two. 41 times
/// 1 / 41 isn't 1.
fn has_exact_reciprocal(y: f32) -> bool {
    y.is_normal()
        && y.recip().is_normal()
        && y.to_bits().trailing_zeros() >= f32::MANTISSA_DIGITS - 1
}

/// Computes a function of both operands, one of which has a value for each output; false if it has
/// no vectors here.
#[target_feature(enable = "avx512f")]
pub(super) fn binary(function: Binary, of: [Operand<'_>; 2], to: &mut [f32]) -> bool {
    match (function, of) {
        (Binary::Div, [x, Operand::All(y)]) if has_exact_reciprocal(y) => {
            each_pair([x, Operand::All(y.recip())], to, |x, y| _mm512_mul_ps(x, y));
        }
        (Binary::Add, _) => each_pair(of, to, |x, y| _mm512_add_ps(x, y)),
        (Binary::Sub, _) => each_pair(of, to, |x, y| _mm512_sub_ps(x, y)),
        (Binary::Mul, _) => each_pair(of, to, |x, y| _mm512_mul_ps(x, y)),
        (Binary::Div, _) => each_pair(of, to, |x, y| _mm512_div_ps(x, y)),
        (Binary::Min, _) => {
            each_pair(of, to, |x, y| chosen(x, y, _mm512_cmp_ps_mask::<_CMP_LT_OQ>(y, x)))
        }
        (Binary::Max, _) => {
            each_pair(of, to, |x, y| chosen(x, y, _mm512_cmp_ps_mask::<_CMP_GT_OQ>(y, x)))
        }
        _ => return false,
    }
    true
}

/// `y` where it is better or no number, and else `x`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn chosen(x: __m512, y: __m512, better: __mmask16) -> __m512 {
    _mm512_mask_blend_ps(better | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(y, y), x, y)
}

/// `row` less its mean, by the root of its variance and `epsilon`.
#[target_feature(enable = "avx512f")]
pub(super) fn standardise(row: &[f32], epsilon: f32, to: &mut [f32]) {
    let count = row.len() as f32;
    let mean = _mm512_set1_ps(sum(row, |x| x) / count);
    let variance = sum(row, |x| {
        let apart = _mm512_sub_ps(x, mean);
        _mm512_mul_ps(apart, apart)
    });
    let factor = _mm512_set1_ps(1.0 / (variance / count + epsilon).sqrt());
    each(row, to, |x| _mm512_mul_ps(_mm512_sub_ps(x, mean), factor));
}

/// The sum of what becomes of each of `x`.
#[inline]
#[target_feature(enable = "avx512f")]
fn sum(x: &[f32], function: impl Fn(__m512) -> __m512) -> f32 {
    let (x, rest) = x.as_chunks::<LANES>();
    let mut sums = [_mm512_setzero_ps(); 4];
    let (fours, few) = x.as_chunks::<4>();
    for four in fours {
        for (sum, x) in sums.iter_mut().zip(four) {
            *sum = _mm512_add_ps(*sum, function(load(x)));
        }
    }
    for (sum, x) in sums.iter_mut().zip(few) {
        *sum = _mm512_add_ps(*sum, function(load(x)));
    }
    if !rest.is_empty() {
        let more = function(load(&filled(rest)));
        sums[3] = _mm512_mask_add_ps(sums[3], lanes(rest.len()), sums[3], more);
    }
    let [a, b, c, d] = sums;
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn each(x: &[f32], to: &mut [f32], function: impl Fn(__m512) -> __m512) {
    let ((x, x_rest), (to, to_rest)) = (x.as_chunks::<LANES>(), to.as_chunks_mut::<LANES>());
    for (x, to) in x.iter().zip(to) {
        store(to, function(load(x)));
    }
    if !to_rest.is_empty() {
        to_rest.copy_from_slice(&floats(function(load(&filled(x_rest))))[..to_rest.len()]);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn each_pair(of: [Operand<'_>; 2], to: &mut [f32], function: impl Fn(__m512, __m512) -> __m512) {
    use Operand::{All, Each};
    match of {
        [Each(x), All(y)] => each(x, to, |x| function(x, _mm512_set1_ps(y))),
        [All(x), Each(y)] => each(y, to, |y| function(_mm512_set1_ps(x), y)),
        [All(x), All(y)] => {
            to.fill(floats(function(_mm512_set1_ps(x), _mm512_set1_ps(y)))[0]);
        }
        [Each(x), Each(y)] => {
            let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
            let (to, to_rest) = to.as_chunks_mut::<LANES>();
            for ((x, y), to) in x.iter().zip(y).zip(to) {
                store(to, function(load(x), load(y)));
            }
            if !to_rest.is_empty() {
                let made = function(load(&filled(x_rest)), load(&filled(y_rest)));
                to_rest.copy_from_slice(&floats(made)[..to_rest.len()]);
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(from: &[f32; LANES]) -> __m512 {
    // SAFETY: `from` has `LANES` floats, as many as a vector.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut [f32; LANES], values: __m512) {
    // SAFETY: `to` has `LANES` floats, as many as a vector.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), values) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn floats(values: __m512) -> [f32; LANES] {
    let mut floats = [0.0; LANES];
    store(&mut floats, values);
    floats
}

/// Fewer than a vector's, and zeros behind them.
#[inline]
fn filled(few: &[f32]) -> [f32; LANES] {
    let mut filled = [0.0; LANES];
    filled[..few.len()].copy_from_slice(few);
    filled
}

/// `e^x`, to 2 units in the last place.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn power(x: __m512) -> __m512 {
    let all = |value: f32| _mm512_set1_ps(value);
    // Of two operands that can't be compared the second is taken.
    exp(_mm512_min_ps(all(89.0), _mm512_max_ps(all(-104.0), x)))
}

/// `x / 2 * (1 + erf(x / √2))` for each of `x`.
#[target_feature(enable = "avx512f")]
pub(super) fn gelu(x: &[f32], to: &mut [f32]) {
    each(x, to, |x| gelu_of(x));
}

/// Input below which [`gelu_of`] is zero.
const GELU_REACH: f32 = -5.6;
/// `erf(√(z / 2)) / √z` for `z <= 5.6²`, as a quotient of both, to 3e-8 of it.
const GELU_OVER: [f32; 6] =
    [0.797_884_5, 0.067_857_23, 0.009_354_63, 3.378_472_5e-4, 1.257_923_8e-5, 4.459_402_4e-8];
const GELU_UNDER: [f32; 6] =
    [1.0, 0.251_712_74, 0.028_677_294, 0.001_885_460_6, 7.334_175e-5, 1.179_633_3e-6];

/// `x / 2 * (1 + erf(x / √2))`, to 2.5e-7 of `x`: the error function is one quotient here, which
/// takes half the instructions of [`erf`] and has digits enough behind the 1.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn gelu_of(x: __m512) -> __m512 {
    let all = |value: f32| _mm512_set1_ps(value);
    // Of two operands that can't be compared the second is taken.
    let near = _mm512_min_ps(all(-GELU_REACH), _mm512_max_ps(all(GELU_REACH), x));
    let square = _mm512_mul_ps(near, near);
    let (over, under) = (polynomial(&GELU_OVER, square), polynomial(&GELU_UNDER, square));
    let inverse = _mm512_rcp14_ps(under);
    // One of Newton's steps, which doubles the digits.
    let inverse = _mm512_mul_ps(inverse, _mm512_fnmadd_ps(under, inverse, all(2.0)));
    let error = _mm512_mul_ps(_mm512_mul_ps(near, over), inverse);
    let is_zero = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, all(GELU_REACH));
    let error = _mm512_mask_mov_ps(error, is_zero, all(-1.0));
    let half = _mm512_mul_ps(x, all(0.5));
    _mm512_fmadd_ps(half, error, half)
}

/// The error function, to 2.5 units in the last place: by the polynomials of
/// [`functions::erf`](crate::kernels::values::functions::erf).
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn erf(x: __m512) -> __m512 {
    let all = |value: f32| _mm512_set1_ps(value);
    let (magnitude, square) = (_mm512_abs_ps(x), _mm512_mul_ps(x, x));
    let near = _mm512_mul_ps(x, polynomial(&ERF_NEAR, square));
    let u = _mm512_min_ps(all(4.2), magnitude);
    let sum = _mm512_add_ps(u, all(2.0));
    let inverse = _mm512_rcp14_ps(sum);
    // One of Newton's steps, which doubles the digits.
    let inverse = _mm512_mul_ps(inverse, _mm512_fnmadd_ps(sum, inverse, all(2.0)));
    let tail = exp(_mm512_sub_ps(all(0.0), _mm512_mul_ps(u, u)));
    let far = _mm512_fnmadd_ps(tail, polynomial(&ERF_FAR, inverse), all(1.0));
    let sign = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(i32::MIN));
    let far = _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(far), sign));
    _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(magnitude, all(1.0)), near, far)
}

/// `c[0] + c[1] x + c[2] x² …`
#[inline]
#[target_feature(enable = "avx512f")]
fn polynomial<const N: usize>(c: &[f32; N], x: __m512) -> __m512 {
    let mut sum = _mm512_set1_ps(c[N - 1]);
    for k in (0..N - 1).rev() {
        sum = _mm512_fmadd_ps(sum, x, _mm512_set1_ps(c[k]));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gelu_is_as_exact_as_it_says() {
        if !is_x86_feature_detected!("avx512f") {
            return reef_conformance::skip("no AVX-512");
        }
        let of: Vec<f32> = (-96_000..96_000).map(|i| i as f32 / 8000.0).collect();
        let mut made = vec![f32::NAN; of.len()];
        // SAFETY: the machine has AVX-512.
        unsafe { gelu(&of, &mut made) };
        for (&x, have) in of.iter().zip(made) {
            let wide = f64::from(x);
            let want = wide / 2.0 * (1.0 + libm::erf(wide * std::f64::consts::FRAC_1_SQRT_2));
            let off = (f64::from(have) - want).abs();
            assert!(off <= 2.5e-7 * wide.abs(), "{have}, not {want} of {x}");
        }
        let mut ends = [-1e30, -1e-30, 0.0, 1e30, f32::INFINITY, f32::NAN];
        // SAFETY: the machine has AVX-512.
        unsafe { gelu(&ends.clone(), &mut ends) };
        assert_eq!([ends[0], ends[1], ends[2], ends[4]], [0.0, -5e-31, 0.0, f32::INFINITY]);
        assert!((ends[3] - 1e30).abs() <= 2.5e23 && ends[5].is_nan(), "{ends:?}");
    }

    #[test]
    fn a_quotient_is_a_product_where_that_is_the_same() {
        let exact: Vec<u8> = (1..=200).filter(|&y| has_exact_reciprocal(y.into())).collect();
        assert_eq!(exact, [1, 2, 4, 8, 16, 32, 64, 128]);
        let is_same = |x: f32, y: f32| (x / y).to_bits() == (x * y.recip()).to_bits();
        for y in [0.25, 1.0, -8.0, 2f32.powi(100)] {
            assert!(has_exact_reciprocal(y) && (1..999).all(|x| is_same(x as f32 / 7.0, y)), "{y}");
        }
        assert!(
            !is_same(41.0, 41.0)
                && ![0.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE / 2.0]
                    .map(has_exact_reciprocal)
                    .contains(&true)
        );
    }
}
