//! Floating point of the chip where Rust has no word for it: halves, `min` and `max`, saturation.

use super::inst::Inst;
use super::registers::Lanes;

/// A half as a float, exactly.
#[inline(always)]
pub(super) fn from_half(half: u32) -> f32 {
    let magnitude = (half & 0x7fff) << 13;
    // 2^112 moves the exponent from a half's bias to a float's, denormals included.
    let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let bits = if magnitude >= 0x0f80_0000 { magnitude | 0x7f80_0000 } else { scaled };
    f32::from_bits(bits | (half & 0x8000) << 16)
}

/// A float as a half, rounded to nearest, ties to even.
#[inline(always)]
pub(super) fn to_half(value: f32) -> u32 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let normal = magnitude.wrapping_add(0xc800_0fff).wrapping_add(magnitude >> 13 & 1) >> 13;
    // Adding a half makes the float's own rounding stop at the last bit of a denormal half.
    let denormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let finite = if magnitude < 0x3880_0000 { denormal } else { normal };
    let nan = 0x7e00 | magnitude >> 13 & 0x3ff;
    let huge = if magnitude > 0x7f80_0000 { nan } else { 0x7c00 };
    (if magnitude >= 0x4780_0000 { huge } else { finite }) | bits >> 16 & 0x8000
}

/// A float as a half, rounded towards zero.
pub(super) fn to_half_toward_zero(value: f32) -> u32 {
    let half = to_half(value);
    let past = from_half(half).abs() > value.abs();
    // Infinity is what only infinity becomes.
    half - u32::from(past)
}

/// A double as a half, rounded once.
pub(super) fn to_half_from_double(value: f64) -> u32 {
    let near = value as f32;
    let exact = f64::from(near) == value || value.is_nan() || near.is_infinite();
    if exact || near.to_bits() & 1 != 0 {
        return to_half(near);
    }
    // The odd neighbour on the other side of the value rounds as the value would.
    let past = f64::from(near).abs() > value.abs();
    to_half(f32::from_bits(if past { near.to_bits() - 1 } else { near.to_bits() + 1 }))
}

macro_rules! extremes {
    ($min:ident $max:ident $float:ty, $bits:ty, $quiet:expr) => {
        /// The lesser; of a number and a quiet NaN the number, and -0 is less than +0.
        #[inline(always)]
        pub(super) fn $min(a: $float, b: $float) -> $float {
            let quiet = |x: $float| <$float>::from_bits(x.to_bits() | $quiet);
            let signals = |x: $float| x != x && x.to_bits() & $quiet == 0;
            let less = a < b || (a == b && a.to_bits() >> (<$bits>::BITS - 1) != 0);
            let value = if a != a || (!less && b == b) { b } else { a };
            if signals(a) {
                quiet(a)
            } else if signals(b) {
                quiet(b)
            } else {
                value
            }
        }

        /// The greater, in the same way.
        #[inline(always)]
        pub(super) fn $max(a: $float, b: $float) -> $float {
            let quiet = |x: $float| <$float>::from_bits(x.to_bits() | $quiet);
            let signals = |x: $float| x != x && x.to_bits() & $quiet == 0;
            let more = a > b || (a == b && a.to_bits() >> (<$bits>::BITS - 1) == 0);
            let value = if a != a || (!more && b == b) { b } else { a };
            if signals(a) {
                quiet(a)
            } else if signals(b) {
                quiet(b)
            } else {
                value
            }
        }
    };
}

extremes!(min32 max32 f32, u32, 0x40_0000);
extremes!(min64 max64 f64, u64, 0x8_0000_0000_0000);

/// The middle one of three.
#[inline(always)]
pub(super) fn med32(a: f32, b: f32, c: f32) -> f32 {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return min32(min32(a, b), c);
    }
    let most = max32(max32(a, b), c);
    if most == a {
        max32(b, c)
    } else if most == b {
        max32(a, c)
    } else {
        max32(a, b)
    }
}

/// Times two to the power of `exponent`, rounded once.
pub(super) fn scale(value: f64, exponent: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let normal = if value.is_subnormal() { value * pow2(54) } else { value };
    let from = i64::from(exponent_of(normal)) - if value.is_subnormal() { 54 } else { 0 };
    let with = |exponent: i64| {
        let bits = normal.to_bits() & !(0x7ff << 52);
        f64::from_bits(bits | ((exponent + 1023) as u64) << 52)
    };
    match from + i64::from(exponent) {
        1024.. => f64::INFINITY.copysign(value),
        exponent @ -1022.. => with(exponent),
        exponent @ -1200.. => with(exponent + 1000) * pow2(-1000),
        _ => 0f64.copysign(value),
    }
}

/// The power of two below a normal value.
fn exponent_of(value: f64) -> i32 {
    (value.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

fn pow2(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Output modifiers of a float: first the factor, then the range 0 to 1.
#[inline]
pub(super) fn finish32(inst: &Inst, value: &mut Lanes<u32>) {
    if inst.omod != 0 || inst.clamp {
        modify32(inst, value);
    }
}

#[cold]
fn modify32(inst: &Inst, value: &mut Lanes<u32>) {
    for lane in value {
        let x = f32::from_bits(*lane) * factor(inst.omod);
        *lane = if inst.clamp { unit(f64::from(x)) as f32 } else { x }.to_bits();
    }
}

pub(super) fn finish64(inst: &Inst, value: f64) -> f64 {
    let x = value * f64::from(factor(inst.omod));
    if inst.clamp { unit(x) } else { x }
}

/// The factor of an output modifier.
pub(super) fn factor(omod: u8) -> f32 {
    [1.0, 2.0, 4.0, 0.5][usize::from(omod & 3)]
}

/// Within 0 and 1; NaN is 0.
pub(super) fn unit(x: f64) -> f64 {
    if x > 0.0 { x.min(1.0) } else { 0.0 }
}
