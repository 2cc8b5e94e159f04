//! The end of a convolution with AVX-512, while its sums are still in registers: bias, residual,
//! ReLU, a function.
//!
//! Values have the bits that [`function`](super::function) and [`scalar`](super::scalar) give, and
//! what is not a number stays none: of two operands that can't be compared, minimum and maximum
//! take the second.

use super::sigmoid::{gated_sigmoid, sigmoid};
use reef_op::Function;
use std::arch::x86_64::*;

/// Operations after bias and residual.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels) struct RegisterEpilogue {
    pub relu: bool,
    pub function: Option<Function>,
}

impl RegisterEpilogue {
    /// Like [`apply`](Self::apply), for a few vectors in a loop, which keeps what functions need in
    /// registers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(in crate::kernels) fn apply_in_loop<const N: usize>(self, values: &mut [__m512; N]) {
        let is_short = !matches!(self.function, Some(Function::Sigmoid | Function::Swish));
        let function = self.function.filter(|_| is_short);
        let mut made = [*values];
        Self { function, ..self }.apply(&mut made);
        *values = made[0];
        if is_short {
            return;
        }
        let gated = self.function == Some(Function::Swish);
        for value in values {
            *value = if gated { gated_sigmoid(*value) } else { sigmoid(*value) };
        }
    }

    /// Replaces `values` by what becomes of them.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(in crate::kernels) fn apply<const V: usize, const N: usize>(
        self,
        values: &mut [[__m512; V]; N],
    ) {
        let values = values.as_flattened_mut();
        if self.relu {
            each(values, |x| _mm512_max_ps(_mm512_setzero_ps(), x));
        }
        match self.function {
            None => {}
            // Often, and short: values stay in registers.
            Some(Function::HardSwish) => each(values, |x| hard_swish(x)),
            Some(function) => apart(function, values),
        }
    }
}

/// Replaces `values` by what a function makes of them, by a call: for functions that are seldom, or
/// so long that what surrounds them doesn't matter.
#[inline(never)]
#[target_feature(enable = "avx512f")]
fn apart(function: Function, values: &mut [__m512]) {
    match function {
        Function::Clamp(bounds) => {
            let [low, high] = [bounds.low(), bounds.high()].map(|bound| _mm512_set1_ps(bound));
            each(values, |x| clamp(x, low, high));
        }
        Function::HardSigmoid => each(values, |x| hard_sigmoid(x)),
        Function::HardSwish => each(values, |x| hard_swish(x)),
        Function::Sigmoid => each(values, |x| sigmoid(x)),
        Function::Swish => each(values, |x| gated_sigmoid(x)),
    }
}

/// Replaces each of `values` by what `function` makes of it.
#[inline]
#[target_feature(enable = "avx512f")]
fn each(values: &mut [__m512], function: impl Fn(__m512) -> __m512) {
    for value in values {
        *value = function(*value);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn clamp(x: __m512, low: __m512, high: __m512) -> __m512 {
    _mm512_min_ps(high, _mm512_max_ps(low, x))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn hard_sigmoid(x: __m512) -> __m512 {
    let all = |value: f32| _mm512_set1_ps(value);
    let line = _mm512_add_ps(_mm512_mul_ps(x, all(1.0 / 6.0)), all(0.5));
    clamp(line, all(0.0), all(1.0))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn hard_swish(x: __m512) -> __m512 {
    _mm512_mul_ps(x, hard_sigmoid(x))
}

#[cfg(test)]
mod tests {
    use super::super::function::apply;
    use super::super::lanes::LANES;
    use super::super::scalar::relu;
    use super::*;
    use reef_op::Bounds;

    #[test]
    fn vectors_have_the_bits_of_single_values() {
        if !is_x86_feature_detected!("avx512f") {
            return reef_conformance::skip("no AVX-512");
        }
        let ends = [-f32::INFINITY, f32::INFINITY, f32::NAN, -0.0, 0.0, 1e-40, -3.0, 3.0];
        let mut of: Vec<f32> = (-4000..4000).map(|i| i as f32 * 0.003).collect();
        of.extend(ends.into_iter().cycle().take(2 * LANES));
        let bounds = Bounds::new(-0.5, 6.0).unwrap();
        let functions = [Function::HardSigmoid, Function::HardSwish, Function::Clamp(bounds)];
        for function in functions.map(Some).into_iter().chain([None]) {
            for with_relu in [false, true] {
                let mut want: Vec<f32> =
                    of.iter().map(|&x| if with_relu { relu(x) } else { x }).collect();
                if let Some(function) = function {
                    apply(function, &mut want);
                }
                let mut have = of.clone();
                for part in have.as_chunks_mut::<LANES>().0 {
                    // SAFETY: the machine has AVX-512, and the part is a vector.
                    unsafe {
                        let mut values = [[_mm512_loadu_ps(part.as_ptr())]];
                        RegisterEpilogue { relu: with_relu, function }.apply(&mut values);
                        _mm512_storeu_ps(part.as_mut_ptr(), values[0][0]);
                    }
                }
                for ((x, want), have) in of.iter().zip(want).zip(have) {
                    let same = want.to_bits() == have.to_bits() || want.is_nan() && have.is_nan();
                    assert!(same, "{function:?} of {x}: {have}, not {want}");
                }
            }
        }
    }
}
