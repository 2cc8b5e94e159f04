//! Types of few bits, whose numbers are held as those of wider types.
//!
//! Floats of 4 and 8 bits are held as halves, which have all their numbers, integers of 2 and 4
//! bits as those of 8. So a port of such a type takes and gives these.

use crate::onnx::fault::Result;
use crate::tensors::builder::Builder;
use crate::tensors::expressions::Writer;
use crate::tensors::value::Value;
use reef_op::tensor::{Array, Binary, Domain, Element, Half, Stored, Unary};

/// A type of few bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Few {
    Whole { bits: u32, is_signed: bool },
    Real(Small),
}

/// A float of a sign, an exponent and a mantissa.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Small {
    bits: u32,
    mantissa: u32,
    bias: i32,
    beyond: Beyond,
}

/// Values of numbers beyond the largest, and patterns that stand for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beyond {
    /// Infinite: patterns of the largest exponent are infinite or NaN.
    Infinite,
    /// NaN, which the largest pattern of either sign is.
    Nan,
    /// NaN, which the pattern of -0 is.
    NanForMinusZero,
    /// The largest: each pattern is a number, and NaN becomes 0.
    Largest,
}

impl Few {
    /// The type that `TensorProto.DataType` calls so, if it is one of few bits.
    pub(crate) fn of(number: i64) -> Option<Self> {
        let real =
            |bits, mantissa, bias, beyond| Some(Self::Real(Small { bits, mantissa, bias, beyond }));
        match number {
            17 => real(8, 3, 7, Beyond::Nan),
            18 => real(8, 3, 8, Beyond::NanForMinusZero),
            19 => real(8, 2, 15, Beyond::Infinite),
            20 => real(8, 2, 16, Beyond::NanForMinusZero),
            21 => Some(Self::Whole { bits: 4, is_signed: false }),
            22 => Some(Self::Whole { bits: 4, is_signed: true }),
            23 => real(4, 1, 1, Beyond::Largest),
            25 => Some(Self::Whole { bits: 2, is_signed: false }),
            26 => Some(Self::Whole { bits: 2, is_signed: true }),
            _ => None,
        }
    }

    /// The type that holds its numbers.
    pub(crate) fn element(self) -> Element {
        match self {
            Self::Real(_) => Element::F16,
            Self::Whole { is_signed: true, .. } => Element::I8,
            Self::Whole { is_signed: false, .. } => Element::U8,
        }
    }

    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Real(small) => small.bits,
            Self::Whole { bits, .. } => bits,
        }
    }

    /// The least and the largest integer; `None` of floats.
    pub(crate) fn bounds(self) -> Option<[f64; 2]> {
        match self {
            Self::Real(_) => None,
            Self::Whole { bits, is_signed } => {
                let half = f64::from(1 << (bits - 1));
                Some(if is_signed { [-half, half - 1.0] } else { [0.0, 2.0 * half - 1.0] })
            }
        }
    }

    /// Numbers of packed patterns, the lowest bits of a byte first.
    pub(crate) fn unpacked(self, packed: impl Iterator<Item = u8>, count: usize) -> Array {
        let bits = self.bits();
        let mask = u8::MAX >> (8 - bits);
        let patterns = packed.flat_map(|byte| {
            (0..8 / bits).map(move |k| byte.checked_shr(k * bits).unwrap_or_default() & mask)
        });
        let patterns = patterns.take(count);
        match self {
            Self::Real(small) => {
                Array::F16(patterns.map(|pattern| Half::from_f64(small.number(pattern))).collect())
            }
            Self::Whole { is_signed: true, .. } => {
                let unused = 8 - bits;
                Array::I8(patterns.map(|x| ((x << unused) as i8) >> unused).collect())
            }
            Self::Whole { is_signed: false, .. } => Array::U8(patterns.collect()),
        }
    }

    /// Numbers of another type as numbers of this one: floats are rounded, and are the largest
    /// beyond it if it `saturates`; integers lose all bits but the lowest.
    pub(crate) fn cast(self, b: &mut Builder<'_>, x: &Value, saturates: bool) -> Result<Value> {
        match self {
            Self::Real(small) => b.map_in(Domain::F32, Element::F16, &[x], |w| {
                let x = w.input(0);
                small.rounded(w, x, saturates)
            }),
            Self::Whole { bits, is_signed } => {
                let x = if x.element().is_float() { whole(b, x)? } else { x.clone() };
                b.map_in(Domain::I64, self.element(), &[&x], |w| {
                    let (x, all) = (w.input(0), w.whole(1 << bits));
                    let half = w.whole(if is_signed { 1 << (bits - 1) } else { 0 });
                    let moved = w.add(x, half);
                    let left = w.bin(Binary::Mod, moved, all);
                    w.sub(left, half)
                })
            }
        }
    }
}

/// The nearest integer, the larger one of two as ONNX Runtime has it; 0 for those that 32 bits
/// can't hold.
fn whole(b: &mut Builder<'_>, x: &Value) -> Result<Value> {
    b.map_in(x.element().domain(), Element::I64, &[x], |w| {
        let (x, half) = (w.input(0), w.real(0.5));
        let (bound, zero) = (w.real(2f64.powi(31)), w.real(0.0));
        let (size, sign) = (w.un(Unary::Abs, x), w.un(Unary::Sign, x));
        let above = w.add(size, half);
        let size = w.un(Unary::Floor, above);
        let fits = w.bin(Binary::Less, size, bound);
        let made = w.mul(sign, size);
        w.select(fits, made, zero)
    })
}

impl Small {
    /// Largest pattern without its sign.
    fn top(self) -> u32 {
        (1 << (self.bits - 1)) - 1
    }

    fn number(self, pattern: u8) -> f64 {
        let (pattern, sign) = (u32::from(pattern), 1 << (self.bits - 1));
        let magnitude = pattern & self.top();
        let largest = self.top() >> self.mantissa;
        let exponent = magnitude >> self.mantissa;
        let part = magnitude & ((1 << self.mantissa) - 1);
        let size = match self.beyond {
            Beyond::Infinite if exponent == largest && part == 0 => f64::INFINITY,
            Beyond::Infinite if exponent == largest => f64::NAN,
            Beyond::Nan if magnitude == self.top() => f64::NAN,
            Beyond::NanForMinusZero if pattern == sign => f64::NAN,
            _ => self.size(magnitude),
        };
        if pattern & sign == 0 { size } else { -size }
    }

    /// Of a pattern that stands for a number.
    fn size(self, magnitude: u32) -> f64 {
        let exponent = magnitude >> self.mantissa;
        let part = f64::from(magnitude & ((1 << self.mantissa) - 1));
        let one = f64::from(1 << self.mantissa);
        let scale = |exponent: i32| 2f64.powi(exponent - self.bias - self.mantissa as i32);
        if exponent == 0 { part * scale(1) } else { (part + one) * scale(exponent as i32) }
    }

    /// Largest pattern of a number, without its sign.
    fn last(self) -> u32 {
        match self.beyond {
            Beyond::Infinite => ((self.top() >> self.mantissa) << self.mantissa) - 1,
            Beyond::Nan => self.top() - 1,
            Beyond::NanForMinusZero | Beyond::Largest => self.top(),
        }
    }

    /// The nearest number, the even one of two.
    pub(crate) fn rounded(self, w: &mut Writer, x: usize, saturates: bool) -> usize {
        let magnitude = w.un(Unary::Abs, x);
        let least = 1 - self.bias;
        let most = (self.last() >> self.mantissa) as i32 - self.bias;
        let scale = |exponent: i32| 2f64.powi(exponent - self.mantissa as i32);
        let mut step = w.real(scale(least));
        for exponent in least + 1..=most {
            let (bound, larger) = (w.real(2f64.powi(exponent)), w.real(scale(exponent)));
            let is_below = w.bin(Binary::Less, magnitude, bound);
            step = w.select(is_below, step, larger);
        }
        let steps = w.div(magnitude, step);
        let steps = w.un(Unary::Round, steps);
        let near = w.mul(steps, step);
        let size = self.within(w, near, saturates);
        let (sign, zero) = (w.un(Unary::Sign, x), w.real(0.0)); // the sign of -0 is -0
        let made = w.mul(size, sign);
        match self.beyond {
            Beyond::Infinite | Beyond::Nan => made,
            Beyond::NanForMinusZero => w.add(made, zero), // it has no -0
            Beyond::Largest => {
                let is_none = w.un(Unary::IsNan, made);
                w.select(is_none, zero, made)
            }
        }
    }

    /// A rounded size that may be beyond the largest.
    fn within(self, w: &mut Writer, near: usize, saturates: bool) -> usize {
        let largest = w.real(self.size(self.last()));
        if saturates || self.beyond == Beyond::Largest {
            return w.bin(Binary::Min, near, largest);
        }
        let is_infinite = self.beyond == Beyond::Infinite;
        let other = w.real(if is_infinite { f64::INFINITY } else { f64::NAN });
        let is_beyond = w.bin(Binary::Less, largest, near);
        w.select(is_beyond, other, near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(kind: i64, patterns: &[u8]) -> Vec<f64> {
        let few = Few::of(kind).unwrap();
        few.unpacked(patterns.iter().copied(), patterns.len()).values().to_f64()
    }

    /// Patterns and numbers of "FP8 Formats for Deep Learning" and of ONNX's table of types.
    #[test]
    fn patterns_of_few_bits_are_the_numbers_of_the_standard() {
        let e4m3 = numbers(17, &[0x7e, 0x08, 0x01, 0x80, 0xfe, 0x7f]);
        assert_eq!(e4m3[..5], [448.0, 2f64.powi(-6), 2f64.powi(-9), 0.0, -448.0]);
        assert!(e4m3[5].is_nan());
        let e4m3 = numbers(18, &[0x7f, 0x01, 0x80]);
        assert_eq!(e4m3[..2], [240.0, 2f64.powi(-10)]);
        assert!(e4m3[2].is_nan());
        let e5m2 = numbers(19, &[0x7b, 0x01, 0x7c, 0xfc, 0x7d]);
        assert_eq!(e5m2[..4], [57344.0, 2f64.powi(-16), f64::INFINITY, f64::NEG_INFINITY]);
        assert!(e5m2[4].is_nan());
        assert_eq!(numbers(20, &[0x7f, 0x01]), [57344.0, 2f64.powi(-17)]);
        assert_eq!(numbers(23, &[0x21, 0xf7]), [0.5, 1.0]);
        assert_eq!(numbers(22, &[0x8f]), [-1.0]);
        assert_eq!(numbers(26, &[0b11_10_01_00]), [0.0]);
        let few = Few::of(26).unwrap();
        assert_eq!(
            few.unpacked([0b11_10_01_00].into_iter(), 4).values().to_f64(),
            [0.0, 1.0, -2.0, -1.0]
        );
    }
}
