//! Numbers of 8 bits that stand for values: a value is its number times a scale.
//!
//! Symmetric and by tensor for activations, by output channel for weights, as Jacob et al.
//! ("Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
//! CVPR 2018) and Micikevicius et al. ("FP8 Formats for Deep Learning", 2022) describe them.

use std::fmt;

/// Format of a number of 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Format {
    /// Whole numbers from -127 to 127.
    Int8,
    /// Floats with 4 bits of exponent and 3 of mantissa (E4M3), up to 448; no infinities.
    Fp8,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::Int8, Self::Fp8];

    /// Name in options and files: `int8` or `fp8`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Fp8 => "fp8",
        }
    }

    /// The largest number.
    pub fn largest(self) -> f32 {
        match self {
            Self::Int8 => 127.0,
            Self::Fp8 => 448.0,
        }
    }

    /// Returns the scale with which values up to `largest` have numbers: 1 if all are 0.
    pub fn scale_of(self, largest: f32) -> f32 {
        let scale = largest / self.largest();
        if scale >= f32::MIN_POSITIVE && scale.is_finite() { scale } else { 1.0 }
    }

    /// Returns the scale of weights that are multiplied with one another's inputs: those of one
    /// output channel.
    ///
    /// Weights that are integers times a number, such as those of a file with integers of 8 bits,
    /// are not rounded: their scale is that number or a part of it, also where the largest integer
    /// is less than 127.
    pub fn scale_of_all(self, values: &[f32]) -> f32 {
        let largest = values.iter().fold(0.0, |largest: f32, value| value.abs().max(largest));
        let common = (self == Self::Int8).then(|| common_scale(values, largest)).flatten();
        common.unwrap_or_else(|| self.scale_of(largest))
    }

    /// Returns the bits of the number nearest to `x`, the even one of two; those of the largest for
    /// what lies beyond. NaN is 0 as an integer and NaN as a float.
    pub fn bits_of(self, x: f32) -> u8 {
        match self {
            Self::Int8 => x.round_ties_even().clamp(-127.0, 127.0) as i8 as u8,
            Self::Fp8 => fp8_of(x),
        }
    }

    /// Returns the number that has these bits.
    pub fn of_bits(self, bits: u8) -> f32 {
        match self {
            Self::Int8 => f32::from(bits as i8),
            Self::Fp8 => of_fp8(bits),
        }
    }

    /// Returns the number nearest to `x`, as [`bits_of`](Self::bits_of) finds it.
    pub fn nearest(self, x: f32) -> f32 {
        self.of_bits(self.bits_of(x))
    }
}

/// Largest distance of a quotient of singles from the integer that it stands for. Quotients are up
/// to 127, and four roundings move them by up to 2⁻¹⁵.
const MAX_DISTANCE: f32 = 1.0 / 16384.0;

/// The smallest part of `largest`, from a 127th on, of which all values are integers, if there is
/// one.
fn common_scale(values: &[f32], largest: f32) -> Option<f32> {
    // Values that are not integers times an earlier scale: most rows are read once.
    let mut others: Vec<f32> = Vec::new();
    (1..=127_u8).rev().map(|count| largest / f32::from(count)).find(|scale| {
        let is_other = |value: &f32| {
            let quotient = value / scale;
            (quotient - quotient.round()).abs() > MAX_DISTANCE
        };
        if !scale.is_normal() || others.iter().any(is_other) {
            return false;
        }
        let other = values.iter().copied().find(is_other);
        others.extend(other);
        other.is_none()
    })
}

/// 2⁻¹²⁰, which makes the least normal single of the least normal E4M3 number, 2⁻⁶.
const DOWN: f32 = f32::from_bits((127 - 120) << 23);

/// The exponents of a single that was brought down are those of E4M3, so that rounding its bits is
/// all there is to do, below the normal numbers too.
fn fp8_of(x: f32) -> u8 {
    let sign = (x.to_bits() >> 24 & 0x80) as u8;
    if x.is_nan() {
        return sign | 0x7f;
    }
    let bits = (x.abs().min(1e6) * DOWN).to_bits();
    let rounded = (bits + 0x7ffff + (bits >> 20 & 1)) >> 20;
    sign | rounded.min(0x7e) as u8
}

fn of_fp8(bits: u8) -> f32 {
    let size = u32::from(bits & 0x7f);
    let value = if size == 0x7f { f32::NAN } else { f32::from_bits(size << 20) / DOWN };
    if bits & 0x80 == 0 { value } else { -value }
}

/// The 8-bit numbers of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "(Format, f32)", into = "(Format, f32)"))]
pub struct Quantized {
    format: Format,
    /// Bits of the scale.
    scale: u32,
}

impl Quantized {
    /// Numbers of this format, each of which stands for `scale` times itself; `None` unless that is
    /// a positive normal number.
    pub fn new(format: Format, scale: f32) -> Option<Self> {
        let usable = scale.is_normal() && scale > 0.0;
        usable.then_some(Self { format, scale: scale.to_bits() })
    }

    /// The format.
    pub fn format(self) -> Format {
        self.format
    }

    /// Value of the number 1.
    pub fn scale(self) -> f32 {
        f32::from_bits(self.scale)
    }

    /// Returns the value nearest to `value` that has a number.
    pub fn nearest(self, value: f32) -> f32 {
        self.format.nearest(value / self.scale()) * self.scale()
    }
}

#[cfg(feature = "serde")]
impl From<Quantized> for (Format, f32) {
    fn from(quantized: Quantized) -> Self {
        (quantized.format, quantized.scale())
    }
}

/// Refuses what [`Quantized::new`] refuses.
#[cfg(feature = "serde")]
impl TryFrom<(Format, f32)> for Quantized {
    type Error = String;

    fn try_from(parts: (Format, f32)) -> Result<Self, String> {
        let (format, scale) = parts;
        Self::new(format, scale)
            .ok_or_else(|| format!("scale: must be a positive normal number, got {scale}"))
    }
}

impl fmt::Debug for Quantized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} times {}", self.format.name(), self.scale())
    }
}

/// Tensors of an [`Op`](crate::op::Op) that a device's kernels take with numbers of 8 bits; all
/// `false` if they take none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Quantization {
    /// The input may have them.
    pub input: bool,
    /// The output may have them, and a residual then has them too, with the output's scale.
    pub output: bool,
    /// Input and output may have them if both do, with one scale.
    pub keeps: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_float_of_8_bits_is_its_own_nearest() {
        for bits in (0..=255_u8).filter(|bits| bits & 0x7f != 0x7f) {
            assert_eq!(Format::Fp8.bits_of(Format::Fp8.of_bits(bits)), bits, "{bits:#x}");
        }
        assert!(Format::Fp8.nearest(f32::NAN).is_nan());
    }

    /// Values of the table in "FP8 Formats for Deep Learning".
    #[test]
    fn floats_of_8_bits_are_those_of_the_paper() {
        let rows =
            [(0x7e, 448.0), (0x08, 0.015_625), (0x07, 0.875 * 0.015_625), (0x01, 0.001_953_125)];
        for (bits, value) in rows {
            assert_eq!(Format::Fp8.of_bits(bits), value);
            assert_eq!(Format::Fp8.of_bits(bits | 0x80), -value);
        }
        for (x, want) in [(1e9, 448.0), (f32::INFINITY, 448.0), (464.0, 448.0), (1e-9, 0.0)] {
            assert_eq!(Format::Fp8.nearest(x), want);
            assert_eq!(Format::Fp8.nearest(-x), -want);
        }
    }

    proptest! {
        #[test]
        fn nearest_float_of_8_bits_is_the_nearest(x in -500f32..500.0, tiny in -0.02f32..0.02) {
            let all = (0..0x7f).flat_map(|bits| [bits, bits | 0x80]);
            let all: Vec<f32> = all.map(|bits| Format::Fp8.of_bits(bits)).collect();
            for x in [x, tiny] {
                let distance = |other: &f32| (other - x).abs();
                let least = all.iter().map(distance).fold(f32::INFINITY, f32::min);
                prop_assert_eq!(distance(&Format::Fp8.nearest(x)), least);
            }
        }
    }

    proptest! {
        /// Rows of a file with one scale for all of them: only one has the number 127.
        #[test]
        fn integers_times_a_scale_stay_what_they_are(
            scale in 1e-4f32..3.0,
            largest in 1..=127_i16,
            others in prop::collection::vec(-127..=127_i16, 1..40),
        ) {
            let numbers = others.iter().map(|other| other % (largest + 1)).chain([largest]);
            let weights: Vec<f32> = numbers.map(|number| f32::from(number) * scale).collect();
            let found = Format::Int8.scale_of_all(&weights);
            for weight in &weights {
                let nearest = Format::Int8.nearest(weight / found) * found;
                prop_assert!((nearest - weight).abs() <= 1e-4 * found, "{nearest} for {weight}");
            }
        }
    }

    #[test]
    fn weights_without_a_common_scale_have_that_of_the_largest() {
        let rows: [(&[f32], f32); 5] = [
            (&[1.27, -0.014], 0.01),
            (&[0.0, 12.7], 0.1),
            (&[0.0], 1.0),
            (&[f32::INFINITY, 1.0], 1.0),
            (&[f32::NAN, 1.27], 0.01),
        ];
        for (weights, want) in rows {
            let found = Format::Int8.scale_of_all(weights);
            assert!((found - want).abs() <= 1e-6, "{weights:?}: {found}");
        }
        assert_eq!(Format::Fp8.scale_of_all(&[1.0, 0.5]), 1.0 / 448.0);
    }

    #[test]
    fn integers_tie_to_the_even_one_and_saturate() {
        let rows = [(0.5, 0.0), (1.5, 2.0), (-2.5, -2.0), (126.6, 127.0), (-400.0, -127.0)];
        for (x, want) in rows {
            assert_eq!(Format::Int8.nearest(x), want);
        }
        assert_eq!(Format::Int8.nearest(f32::NAN), 0.0);
    }

    #[test]
    fn scales_are_positive_and_normal() {
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-40] {
            assert_eq!(Quantized::new(Format::Int8, scale), None);
            assert_eq!(Format::Int8.scale_of(scale * 127.0), 1.0);
        }
        let quantized = Quantized::new(Format::Int8, Format::Int8.scale_of(2.54)).unwrap();
        assert_eq!(quantized.nearest(5.0), 127.0 * quantized.scale());
        assert_eq!(quantized.nearest(0.029), quantized.scale());
    }
}
