//! Elements as they are stored, and their conversion to the numbers that are computed with.
//!
//! Floats round to the nearest and ties to even. Floats become integers by dropping the fraction;
//! integers too large for their new type wrap.

/// IEEE half precision, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Half(pub u16);

/// The upper half of a single, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Brain(pub u16);

/// A truth value; everything but 0 is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Truth(pub u8);

/// A type that tensors store.
pub trait Stored: Copy + Default + PartialEq + Send + Sync + 'static {
    /// As a single.
    fn to_f32(self) -> f32;
    /// As a double.
    fn to_f64(self) -> f64;
    /// As a signed integer.
    fn to_i64(self) -> i64;
    /// As an unsigned integer.
    fn to_u64(self) -> u64;
    /// From a single.
    fn from_f32(number: f32) -> Self;
    /// From a double.
    fn from_f64(number: f64) -> Self;
    /// From a signed integer.
    fn from_i64(number: i64) -> Self;
    /// From an unsigned integer.
    fn from_u64(number: u64) -> Self;
}

macro_rules! integer {
    ($($kind:ty)*) => {$(
        impl Stored for $kind {
            fn to_f32(self) -> f32 { self as f32 }
            fn to_f64(self) -> f64 { self as f64 }
            fn to_i64(self) -> i64 { self as i64 }
            fn to_u64(self) -> u64 { self as u64 }
            fn from_f32(number: f32) -> Self { whole(number.into()) as Self }
            fn from_f64(number: f64) -> Self { whole(number) as Self }
            fn from_i64(number: i64) -> Self { number as Self }
            fn from_u64(number: u64) -> Self { number as Self }
        }
    )*};
}

/// Without its fraction, in a type that holds what each integer type does.
fn whole(number: f64) -> i128 {
    number as i128
}

integer!(i64 i32 i16 i8 u64 u32 u16 u8);

macro_rules! float {
    ($kind:ty, $to:expr, $from:expr) => {
        impl Stored for $kind {
            fn to_f32(self) -> f32 {
                $to(self)
            }
            fn to_f64(self) -> f64 {
                f64::from(self.to_f32())
            }
            fn to_i64(self) -> i64 {
                self.to_f32() as i64
            }
            fn to_u64(self) -> u64 {
                self.to_f32() as u64
            }
            fn from_f32(number: f32) -> Self {
                $from(number)
            }
            fn from_f64(number: f64) -> Self {
                $from(number as f32)
            }
            fn from_i64(number: i64) -> Self {
                $from(number as f32)
            }
            fn from_u64(number: u64) -> Self {
                $from(number as f32)
            }
        }
    };
}

float!(f32, |x| x, |x| x);
float!(Half, |x: Half| single_of_half(x.0), |x| Half(half_of_single(x)));
float!(Brain, |x: Brain| f32::from_bits(u32::from(x.0) << 16), |x| Brain(brain_of_single(x)));

impl Stored for f64 {
    fn to_f32(self) -> f32 {
        self as f32
    }
    fn to_f64(self) -> f64 {
        self
    }
    fn to_i64(self) -> i64 {
        self as i64
    }
    fn to_u64(self) -> u64 {
        self as u64
    }
    fn from_f32(number: f32) -> Self {
        number.into()
    }
    fn from_f64(number: f64) -> Self {
        number
    }
    fn from_i64(number: i64) -> Self {
        number as f64
    }
    fn from_u64(number: u64) -> Self {
        number as f64
    }
}

impl Stored for Truth {
    fn to_f32(self) -> f32 {
        self.to_i64() as f32
    }
    fn to_f64(self) -> f64 {
        self.to_i64() as f64
    }
    fn to_i64(self) -> i64 {
        i64::from(self.0 != 0)
    }
    fn to_u64(self) -> u64 {
        u64::from(self.0 != 0)
    }
    fn from_f32(number: f32) -> Self {
        Self((number != 0.0).into())
    }
    fn from_f64(number: f64) -> Self {
        Self((number != 0.0).into())
    }
    fn from_i64(number: i64) -> Self {
        Self((number != 0).into())
    }
    fn from_u64(number: u64) -> Self {
        Self((number != 0).into())
    }
}

/// Exact: each half is a single.
fn single_of_half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(bits >> 10) & 0x1f, u32::from(bits) & 0x3ff);
    let magnitude = match exponent {
        0 => fraction as f32 * (-24f32).exp2(),
        0x1f => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    f32::from_bits(sign | magnitude.to_bits())
}

fn half_of_single(number: f32) -> u16 {
    let sign = (number.to_bits() >> 16 & 0x8000) as u16;
    let magnitude = number.to_bits() & 0x7fff_ffff;
    let half = match magnitude {
        0x7f80_0001.. => 0x7e00,
        0x4780_0000.. => 0x7c00,
        // The smallest normal half is 2⁻¹⁴; below it, one unit is 2⁻²⁴, and adding 1/2 rounds to
        // that.
        ..0x3880_0000 => (f32::from_bits(magnitude) + 0.5).to_bits() - 0x3f00_0000,
        _ => (magnitude - (112 << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13,
    };
    sign | half as u16
}

fn brain_of_single(number: f32) -> u16 {
    let bits = number.to_bits();
    if number.is_nan() {
        (bits >> 16) as u16 | 0x40
    } else {
        ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_half_is_restored_from_its_single() {
        for bits in 0..=u16::MAX {
            let single = single_of_half(bits);
            if single.is_nan() {
                assert!(single_of_half(half_of_single(single)).is_nan());
            } else {
                assert_eq!(half_of_single(single), bits, "{single}");
            }
        }
    }

    #[test]
    fn halves_round_to_the_nearest_and_ties_to_even() {
        for (single, half) in [
            (65504.0, 0x7bff),
            (65519.9, 0x7bff),
            (65520.0, 0x7c00),
            (1.0, 0x3c00),
            (1.000_488_3, 0x3c00),
            (1.001_464_9, 0x3c02),
            (-0.0, 0x8000),
            (2f32.powi(-25), 0),
            (2f32.powi(-25) * 1.01, 1),
            (1e-30, 0),
            (f32::NEG_INFINITY, 0xfc00),
        ] {
            assert_eq!(half_of_single(single), half, "{single}");
        }
        assert_eq!(brain_of_single(1.003_906_3), 0x3f80, "a tie");
        assert_eq!(brain_of_single(1.011_718_8), 0x3f82, "a tie");
    }

    #[test]
    fn floats_lose_their_fraction_and_integers_wrap() {
        assert_eq!((i8::from_f32(-3.9), u8::from_f32(-1.0), i8::from_i64(200)), (-3, 255, -56));
        assert_eq!((Truth::from_f32(0.5).0, Truth(7).to_i64()), (1, 1));
    }
}
