//! Numbers that operations compute with: singles, doubles, signed and unsigned integers.

use super::array::{Array, ElementType, Values, with_values};
use super::stored::Stored;

/// One of the four types of [`Domain`](super::Domain).
pub(crate) trait Number:
    Copy + PartialOrd + Default + Send + Sync + std::fmt::Debug + 'static
{
    const MIN_VALUE: Self;
    const MAX_VALUE: Self;

    fn take<S: Stored>(stored: S) -> Self;
    fn give<S: Stored>(self) -> S;
    fn of_f64(number: f64) -> Self;
    fn of_i64(number: i64) -> Self;
    fn to_f64(self) -> f64;
    fn is_nan(self) -> bool;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// Integers divided by 0 are 0.
    fn div(self, other: Self) -> Self;
    /// Remainder of a division, with the sign of the dividend, as C's `%` and `fmod`; 0 for
    /// integers modulo 0.
    fn rem(self, other: Self) -> Self;
    fn pow(self, other: Self) -> Self;
    fn bits(self) -> u64;
    fn of_bits(bits: u64) -> Self;

    /// Returns the values, if they are stored as the type that is computed with.
    fn direct<'a>(values: &Values<'a>) -> Option<&'a [Self]>;

    /// Reads `to.len()` values from `start` on, each `stride` after the one before.
    fn load(values: &Values<'_>, start: usize, stride: usize, to: &mut [Self]) {
        with_values!(Values, values, from => match stride {
            0 => to.fill(Self::take(from[start])),
            1 => {
                let from = &from[start..start + to.len()];
                to.iter_mut().zip(from).for_each(|(to, &from)| *to = Self::take(from));
            }
            _ => to.iter_mut().enumerate().for_each(|(i, to)| *to = Self::take(from[start + i * stride])),
        });
    }

    /// Appends to an array.
    fn store(numbers: &[Self], to: &mut Array) {
        with_values!(Array, to, list => append(numbers, list));
    }
}

fn append<T: Number, S: Stored>(numbers: &[T], to: &mut Vec<S>) {
    to.extend(numbers.iter().map(|&number| number.give::<S>()));
}

/// Conversions of any of the four types.
macro_rules! conversions {
    ($to:ident, $from:ident) => {
        fn take<S: Stored>(stored: S) -> Self {
            stored.$to()
        }
        fn give<S: Stored>(self) -> S {
            S::$from(self)
        }
        fn of_f64(number: f64) -> Self {
            number as Self
        }
        fn of_i64(number: i64) -> Self {
            number as Self
        }
        fn direct<'a>(values: &Values<'a>) -> Option<&'a [Self]> {
            <Self as ElementType>::of(values)
        }
    };
}

macro_rules! float {
    ($kind:ident, $to:ident, $from:ident) => {
        impl Number for $kind {
            const MIN_VALUE: Self = Self::NEG_INFINITY;
            const MAX_VALUE: Self = Self::INFINITY;

            conversions!($to, $from);
            fn to_f64(self) -> f64 {
                self.into()
            }
            fn is_nan(self) -> bool {
                Self::is_nan(self)
            }
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn div(self, other: Self) -> Self {
                self / other
            }
            fn rem(self, other: Self) -> Self {
                self % other
            }
            fn pow(self, other: Self) -> Self {
                self.powf(other)
            }
            fn bits(self) -> u64 {
                (self as i64) as u64
            }
            fn of_bits(bits: u64) -> Self {
                (bits as i64) as Self
            }
        }
    };
}

float!(f32, to_f32, from_f32);
float!(f64, to_f64, from_f64);

macro_rules! integer {
    ($kind:ident, $to:ident, $from:ident) => {
        impl Number for $kind {
            const MIN_VALUE: Self = Self::MIN;
            const MAX_VALUE: Self = Self::MAX;

            conversions!($to, $from);
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn is_nan(self) -> bool {
                false
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            fn rem(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            fn pow(self, other: Self) -> Self {
                match u32::try_from(other) {
                    Ok(exponent) => self.wrapping_pow(exponent),
                    Err(_) => (self as f64).powf(other as f64) as Self,
                }
            }
            fn bits(self) -> u64 {
                self as u64
            }
            fn of_bits(bits: u64) -> Self {
                bits as Self
            }
        }
    };
}

integer!(i64, to_i64, from_i64);
integer!(u64, to_u64, from_u64);
