//! Functions of single values.

use std::fmt;

/// Two numbers, the first at most the second. Infinite ones bound nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "(f32, f32)", into = "(f32, f32)"))]
pub struct Bounds {
    /// Bits of the numbers, which are equal where the numbers are.
    low: u32,
    high: u32,
}

impl Bounds {
    /// The bounds of ReLU6: 0 and 6.
    pub const RELU6: Self = Self { low: 0f32.to_bits(), high: 6f32.to_bits() };

    /// Makes bounds of these two; `None` unless `low <= high`.
    pub fn new(low: f32, high: f32) -> Option<Self> {
        let bits = |bound: f32| (bound + 0.0).to_bits(); // one zero instead of two
        (low <= high).then(|| Self { low: bits(low), high: bits(high) })
    }

    /// The least value.
    pub fn low(self) -> f32 {
        f32::from_bits(self.low)
    }

    /// The largest value.
    pub fn high(self) -> f32 {
        f32::from_bits(self.high)
    }
}

#[cfg(feature = "serde")]
impl From<Bounds> for (f32, f32) {
    fn from(bounds: Bounds) -> Self {
        (bounds.low(), bounds.high())
    }
}

/// Refuses what [`Bounds::new`] refuses.
#[cfg(feature = "serde")]
impl TryFrom<(f32, f32)> for Bounds {
    type Error = String;

    fn try_from(bounds: (f32, f32)) -> Result<Self, String> {
        let (low, high) = bounds;
        Self::new(low, high).ok_or_else(|| format!("bounds: cannot be {low} to {high}"))
    }
}

impl fmt::Debug for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.low(), self.high())
    }
}

/// Function of each value. It keeps NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Function {
    /// `min(high, max(low, x))`, exactly.
    Clamp(Bounds),
    /// `max(0, min(1, x / 6 + 1/2))`, as torch defines it and ONNX does with alpha = 1/6.
    HardSigmoid,
    /// `x * hard_sigmoid(x)`.
    HardSwish,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `x * sigmoid(x)`, which torch calls SiLU.
    Swish,
}

impl Function {
    /// Returns the function of `x`.
    #[inline]
    pub fn of(self, x: f64) -> f64 {
        match self {
            Self::Clamp(bounds) => x.clamp(bounds.low().into(), bounds.high().into()),
            Self::HardSigmoid => (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Self::HardSwish => x * Self::HardSigmoid.of(x),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Swish => x * Self::Sigmoid.of(x),
        }
    }

    /// Returns the function `x * function(x)`, if there is a name for it.
    pub fn gating(self) -> Option<Self> {
        match self {
            Self::HardSigmoid => Some(Self::HardSwish),
            Self::Sigmoid => Some(Self::Swish),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_in_order_and_equal_where_their_numbers_are() {
        assert_eq!(Bounds::new(0.0, 6.0), Some(Bounds::RELU6));
        assert_eq!(Bounds::new(-0.0, 6.0), Some(Bounds::RELU6));
        assert_eq!(format!("{:?}", Bounds::new(-1.5, f32::INFINITY).unwrap()), "-1.5 to inf");
        let inverted_or_none = [(1.0, 0.0), (f32::NAN, 1.0), (0.0, f32::NAN)];
        assert!(inverted_or_none.iter().all(|&(low, high)| Bounds::new(low, high).is_none()));
    }

    #[test]
    fn functions_keep_nan() {
        use Function::{Clamp, HardSigmoid, HardSwish, Sigmoid, Swish};
        for function in [Clamp(Bounds::RELU6), HardSigmoid, HardSwish, Sigmoid, Swish] {
            assert!(function.of(f64::NAN).is_nan(), "{function:?}");
        }
    }

    #[test]
    fn gating_function_is_the_product() {
        for gate in [Function::HardSigmoid, Function::Sigmoid] {
            let gated = gate.gating().unwrap();
            for x in [-8.0, -1.5, 0.0, 0.25, 7.0] {
                assert_eq!(gated.of(x), x * gate.of(x), "{gated:?} of {x}");
            }
        }
    }
}
