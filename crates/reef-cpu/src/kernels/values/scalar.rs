//! Operations of kernels on one value. NaN stays NaN, as in torch and ONNX.
//!
//! `f32::max` and `f32::min` give the other operand instead. Compilers make one or two vector
//! instructions of each of these, as of those.

/// Zero instead of negative values.
#[inline(always)]
pub(in crate::kernels) fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// The nearest value from `low` to `high`.
#[inline(always)]
pub(in crate::kernels) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// The larger of both.
#[inline(always)]
pub(in crate::kernels) fn larger(a: f32, b: f32) -> f32 {
    if b > a || b.is_nan() { b } else { a }
}

/// The smaller of both.
#[inline(always)]
pub(in crate::kernels) fn smaller(a: f32, b: f32) -> f32 {
    if b < a || b.is_nan() { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_stays_nan() {
        let nan = f32::NAN;
        let one = [relu(nan), clamp(nan, 0.0, 6.0)];
        let two = [larger(nan, 1.0), larger(1.0, nan), smaller(nan, 1.0), smaller(1.0, nan)];
        let all = [&one[..], &two].concat();
        assert!(all.iter().all(|value| value.is_nan()), "{all:?}");
    }

    #[test]
    fn numbers_are_bounded_exactly() {
        let inf = f32::INFINITY;
        assert_eq!([-inf, -1.0, 0.5, inf].map(relu), [0.0, 0.0, 0.5, inf]);
        assert_eq!([-inf, -0.559, 2.0].map(|x| clamp(x, -1e9, 1e9)), [-1e9, -0.559, 2.0]);
        assert_eq!(clamp(inf, -inf, inf), inf);
        assert_eq!([larger(-inf, -1.0), larger(3.0, 2.0)], [-1.0, 3.0]);
        assert_eq!([smaller(inf, -1.0), smaller(2.0, 3.0)], [-1.0, 2.0]);
    }
}
