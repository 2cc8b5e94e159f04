//! Functions of values, along rows.

use super::functions::exp;
use super::scalar::clamp;
#[cfg(target_arch = "x86_64")]
use super::sigmoid::sigmoids;
use reef_op::Function;

/// Gives each of `values` to `function`.
#[inline(always)]
pub(in crate::kernels) fn apply(function: Function, values: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if matches!(function, Function::Sigmoid | Function::Swish)
        && is_x86_feature_detected!("avx512f")
    {
        // SAFETY: the machine has AVX-512.
        return unsafe { sigmoids(values, function == Function::Swish) };
    }
    match function {
        Function::Clamp(bounds) => {
            let (low, high) = (bounds.low(), bounds.high());
            each(values, |x| clamp(x, low, high));
        }
        Function::HardSigmoid => each(values, hard_sigmoid),
        Function::HardSwish => each(values, |x| x * hard_sigmoid(x)),
        Function::Sigmoid => each(values, |x| 1.0 / (1.0 + exp(-x))),
        Function::Swish => each(values, |x| x / (1.0 + exp(-x))),
    }
}

/// Its name, for traces.
pub(in crate::kernels) fn name(function: Function) -> &'static str {
    match function {
        Function::Clamp(_) => "clamp",
        Function::HardSigmoid => "hard_sigmoid",
        Function::HardSwish => "hard_swish",
        Function::Sigmoid => "sigmoid",
        Function::Swish => "swish",
    }
}

#[inline(always)]
fn each(values: &mut [f32], function: impl Fn(f32) -> f32) {
    values.iter_mut().for_each(|value| *value = function(*value));
}

#[inline(always)]
fn hard_sigmoid(x: f32) -> f32 {
    clamp(x * (1.0 / 6.0) + 0.5, 0.0, 1.0)
}
