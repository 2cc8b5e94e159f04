//! The sigmoid with AVX-512: sixteen values at a time, without a division.

use super::lanes::{LANES, lanes};
use std::arch::x86_64::*;

/// Input at and below which the sigmoid is zero.
const MIN_INPUT: f32 = -87.0;

/// `x * sigmoid(x)` for each of `values`, or `sigmoid(x)` unless they are `gated`; to 1e-6 of the
/// result.
#[target_feature(enable = "avx512f")]
pub(in crate::kernels) fn sigmoids(values: &mut [f32], gated: bool) {
    for part in values.chunks_mut(LANES) {
        let mask = lanes(part.len());
        // SAFETY: the mask leaves out what is behind the part.
        let x = unsafe { _mm512_maskz_loadu_ps(mask, part.as_ptr()) };
        let made = if gated { gated_sigmoid(x) } else { sigmoid(x) };
        // SAFETY: the mask leaves out what is behind the part.
        unsafe { _mm512_mask_storeu_ps(part.as_mut_ptr(), mask, made) };
    }
}

/// `x / (1 + e^-x)`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::kernels) fn gated_sigmoid(x: __m512) -> __m512 {
    _mm512_mul_ps(x, sigmoid(x))
}

/// `1 / (1 + e^-x)`. What is not a number stays none.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::kernels) fn sigmoid(x: __m512) -> __m512 {
    let all = |value: f32| _mm512_set1_ps(value);
    // Of two operands that can't be compared the second is taken.
    let bounded = _mm512_min_ps(all(-MIN_INPUT), _mm512_max_ps(all(MIN_INPUT), x));
    let sum = _mm512_add_ps(all(1.0), exp(_mm512_sub_ps(all(0.0), bounded)));
    let near = _mm512_rcp14_ps(sum);
    // One of Newton's steps, which doubles the digits.
    let inverse = _mm512_mul_ps(near, _mm512_fnmadd_ps(sum, near, all(2.0)));
    let is_zero = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, all(MIN_INPUT));
    _mm512_mask_mov_ps(inverse, is_zero, all(0.0))
}

/// `e^x` for `-104 <= x <= 89`, to 2 units in the last place: as
/// [`functions::exp`](super::functions::exp), with the same polynomial.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::kernels) fn exp(x: __m512) -> __m512 {
    let all = |value: f32| _mm512_set1_ps(value);
    let whole = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(
        _mm512_mul_ps(x, all(std::f32::consts::LOG2_E)),
    );
    let rest = _mm512_fnmadd_ps(whole, all(0.693_359_4), x);
    let rest = _mm512_fnmadd_ps(whole, all(-2.121_944_4e-4), rest);
    let mut power = all(0.001_392_692_7);
    for factor in [0.008_363_774, 0.041_666_55, 0.166_665_73, 0.5, 1.0, 1.0] {
        power = _mm512_fmadd_ps(power, rest, all(factor));
    }
    _mm512_scalef_ps(power, whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::Function;

    #[test]
    fn sigmoids_are_as_exact_as_they_say() {
        if !is_x86_feature_detected!("avx512f") {
            return reef_conformance::skip("no AVX-512");
        }
        for (function, gated) in [(Function::Sigmoid, false), (Function::Swish, true)] {
            let of: Vec<f32> = (-43_000..=43_007).map(|i| i as f32 * 0.002).collect();
            let mut values = of.clone();
            // SAFETY: the machine has AVX-512.
            unsafe { sigmoids(&mut values, gated) };
            for (x, have) in of.iter().zip(values) {
                let (want, have) = (function.of(f64::from(*x)), f64::from(have));
                assert!((have - want).abs() <= 1e-6 * want.abs(), "{have}, not {want} of {x}");
            }
        }
        let mut ends = [f32::NEG_INFINITY, -1e30, 1e30, f32::INFINITY, f32::NAN];
        // SAFETY: the machine has AVX-512.
        unsafe { sigmoids(&mut ends, false) };
        assert!(ends[..4] == [0.0, 0.0, 1.0, 1.0] && ends[4].is_nan(), "{ends:?}");
    }
}
