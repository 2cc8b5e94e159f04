//! Functions of singles that compilers make vector instructions of.
//!
//! Polynomials are Chebyshev fits of the functions named, to within the errors said; units in the
//! last place are those of the result. What is not a number stays none.

/// `e^x`, to 1.1 units in the last place; results below the least normal number are rounded twice.
#[inline(always)]
pub(in crate::kernels) fn exp(x: f32) -> f32 {
    /// `(e^r - 1 - r) / r²` for `|r| <= ln(2) / 2`, to 7e-8.
    const P: [f32; 5] = [0.5, 0.166_665_73, 0.041_666_55, 0.008_363_774, 0.001_392_692_7];
    /// Added and taken away again, it rounds to whole numbers; it leaves them in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    /// The natural logarithm of 2 in two parts: products of the first with small whole numbers are
    /// exact.
    const LN2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = (x - whole * LN2[0]) - whole * LN2[1];
    let power = polynomial(&P, rest) * (rest * rest) + rest + 1.0;
    // In two steps, as the power of two may be no normal number.
    let whole = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let half = whole >> 1;
    power * power_of_two(half) * power_of_two(whole.wrapping_sub(half))
}

/// `2^k` for `-126 <= k <= 127`.
#[inline(always)]
fn power_of_two(k: i32) -> f32 {
    f32::from_bits((k.wrapping_add(127) as u32) << 23)
}

/// The hyperbolic tangent, to 1.3 units in the last place.
#[inline(always)]
pub(in crate::kernels) fn tanh(x: f32) -> f32 {
    /// `(tanh(√z) - √z) / z^1.5` for `z <= 0.4`, to 2e-9.
    const P: [f32; 6] =
        [-0.333_333_34, 0.133_333, -0.053_958_46, 0.021_762_503, -0.008_323_187, 0.002_269_501_7];
    let square = x * x;
    let near = x + x * square * polynomial(&P, square);
    let far = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    if x.abs() > 0.625 { far.copysign(x) } else { near }
}

/// `erf(√z) / √z` for `z <= 1`, to 4e-11.
pub(in crate::kernels) const ERF_NEAR: [f32; 8] = [
    std::f32::consts::FRAC_2_SQRT_PI,
    -0.376_126_4,
    0.112_837_82,
    -0.026_865_43,
    0.005_221_031_8,
    -8.484_08e-4,
    1.126_595_9e-4,
    -9.667_045e-6,
];
/// `erfc(u) * e^(u²)` for `1 <= u <= 4.2`, of `1 / (u + 2)`, to 9e-9.
pub(in crate::kernels) const ERF_FAR: [f32; 7] =
    [5.370_958e-4, 0.548_953_24, 1.305_842_4, 0.904_445_2, 6.178_98, -1.388_353_2, -3.717_772_4];

/// The error function, to 2.5 units in the last place.
#[inline(always)]
pub(in crate::kernels) fn erf(x: f32) -> f32 {
    let u = x.abs();
    let square = x * x;
    let near = x * polynomial(&ERF_NEAR, square);
    let u = if u > 4.2 { 4.2 } else { u };
    let far = 1.0 - exp(-(u * u)) * polynomial(&ERF_FAR, 1.0 / (u + 2.0));
    if u > 1.0 { far.copysign(x) } else { near }
}

/// `c[0] + c[1] x + c[2] x² …`
#[inline(always)]
fn polynomial<const N: usize>(c: &[f32; N], x: f32) -> f32 {
    let mut sum = c[N - 1];
    let mut k = N - 1;
    while k > 0 {
        k -= 1;
        sum = sum * x + c[k];
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units in the last place of `want`.
    fn off(have: f32, want: f64) -> f64 {
        let near = (want as f32).abs().max(f32::MIN_POSITIVE);
        ((f64::from(have) - want) / f64::from(near.next_up() - near)).abs()
    }

    fn worst(function: fn(f32) -> f32, exact: fn(f64) -> f64, reach: f32) -> f64 {
        let all = (-200_000..=200_000).map(|i| i as f32 / 200_000.0 * reach);
        let tiny = (1..100).map(|i| 2f32.powi(-i));
        let all = all.chain(tiny).map(|x| off(function(x), exact(x.into())));
        all.max_by(f64::total_cmp).unwrap()
    }

    #[test]
    fn functions_are_as_exact_as_they_say() {
        assert!(worst(exp, f64::exp, 87.0) <= 1.1, "{}", worst(exp, f64::exp, 87.0));
        assert!(worst(tanh, f64::tanh, 12.0) <= 1.3, "{}", worst(tanh, f64::tanh, 12.0));
        assert!(worst(erf, libm::erf, 6.0) <= 2.5, "{}", worst(erf, libm::erf, 6.0));
    }

    #[test]
    fn ends_are_right() {
        let inf = f32::INFINITY;
        assert_eq!([-inf, -200.0, 0.0, 89.5, inf].map(exp), [0.0, 0.0, 1.0, inf, inf]);
        assert!(exp(-100.0) > 0.0 && exp(-100.0) < f32::MIN_POSITIVE);
        assert_eq!([-inf, -0.0, inf].map(tanh), [-1.0, 0.0, 1.0]);
        assert_eq!([-inf, -0.0, inf].map(erf), [-1.0, 0.0, 1.0]);
        assert!([exp, tanh, erf].iter().all(|function| function(f32::NAN).is_nan()));
    }
}
