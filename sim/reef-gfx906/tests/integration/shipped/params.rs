//! Structs that kernels take by value, and elements of 32 and 16 bits.

/// Words of a struct whose fields follow each other without gaps.
#[derive(Debug, Default)]
pub(crate) struct Struct(Vec<u32>);

impl Struct {
    pub(crate) fn wide(mut self, fields: &[u64]) -> Self {
        self.0.extend(fields.iter().flat_map(|&field| [field as u32, (field >> 32) as u32]));
        self
    }

    pub(crate) fn words(mut self, fields: &[u32]) -> Self {
        self.0.extend(fields);
        self
    }

    /// `Divisor` in kernels/element.h.
    pub(crate) fn divisor(self, by: u32) -> Self {
        let shift = 31 + by.next_power_of_two().trailing_zeros();
        let factor = (1_u64 << shift).div_ceil(u64::from(by)) as u32;
        self.words(&[factor, shift])
    }

    /// `View` in kernels/element.h: pixels with all their channels side by side.
    pub(crate) fn view(self, data: u64, Shape([height, width, channels]): Shape) -> Self {
        let image = u64::from(height * width * channels);
        self.wide(&[data, image]).words(&[channels, 1, height, width, 0, 0])
    }

    pub(crate) fn finish(self) -> Vec<u64> {
        let pairs = self.0.chunks(2);
        pairs.map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32).collect()
    }
}

/// The elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Element {
    F32,
    F16,
}

impl Element {
    pub(crate) const BOTH: [Self; 2] = [Self::F32, Self::F16];

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }

    /// Values as they lie in memory. They are integers that 16 bits hold exactly.
    pub(crate) fn pack(self, values: &[f32]) -> Vec<u32> {
        match self {
            Self::F32 => values.iter().map(|value| value.to_bits()).collect(),
            Self::F16 => {
                let pairs = values.chunks(2).map(|pair| pair.iter().map(|&value| half(value)));
                pairs.map(|pair| pair.rev().fold(0, |all, bits| all << 16 | bits)).collect()
            }
        }
    }

    pub(crate) fn unpack(self, memory: &[u32]) -> Vec<f32> {
        match self {
            Self::F32 => memory.iter().map(|&word| f32::from_bits(word)).collect(),
            Self::F16 => {
                memory.iter().flat_map(|&word| [whole(word & 0xffff), whole(word >> 16)]).collect()
            }
        }
    }
}

/// The bits of a 16-bit float.
fn half(value: f32) -> u32 {
    let bits = value.to_bits();
    let sign = bits >> 16 & 0x8000;
    match value {
        _ if value.is_nan() => 0x7e00,
        _ if value.is_infinite() => sign | 0x7c00,
        0.0 => sign,
        _ => sign | ((bits >> 13 & 0x3_ffff) - (112 << 10)),
    }
}

fn whole(bits: u32) -> f32 {
    let sign = (bits & 0x8000) << 16;
    let rest = bits & 0x7fff;
    f32::from_bits(match rest {
        0 => sign,
        0x7c00.. => sign | 0x7f80_0000 | (rest & 0x3ff) << 13,
        _ => sign | ((rest + (112 << 10)) << 13),
    })
}

/// A tensor of [`IMAGES`] images: pixels with all their channels side by side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape(pub(crate) [u32; 3]);

/// `Activation` in kernels/activation.h: no value below zero.
pub(crate) const RELU: [u32; 3] = [0, 0, f32::INFINITY.to_bits()];

/// `Activation` that leaves values as they are.
pub(crate) const KEPT: [u32; 3] = [0, f32::NEG_INFINITY.to_bits(), f32::INFINITY.to_bits()];

/// Images of every tensor.
pub(crate) const IMAGES: u32 = 2;

impl Shape {
    pub(crate) fn len(self) -> usize {
        (IMAGES * self.0.iter().product::<u32>()) as usize
    }

    /// Index of an element; `None` outside of the image.
    pub(crate) fn at(self, [n, y, x, c]: [i64; 4]) -> Option<usize> {
        let [height, width, channels] = self.0.map(i64::from);
        let inside = (0..height).contains(&y) && (0..width).contains(&x);
        inside.then_some((((n * height + y) * width + x) * channels + c) as usize)
    }

    /// Image, row, column and channel of each element.
    pub(crate) fn places(self) -> impl Iterator<Item = [i64; 4]> {
        let [height, width, channels] = self.0.map(i64::from);
        (0..self.len() as i64).map(move |at| {
            let pixel = at / channels;
            [pixel / width / height, pixel / width % height, pixel % width, at % channels]
        })
    }
}

/// Small integers, so that sums are exact in any order.
pub(crate) fn integers(count: usize, modulus: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 + i / 5) % modulus) as f32 - (modulus / 2) as f32).collect()
}

/// As [`integers`], but each 17th is a NaN.
pub(crate) fn with_nans(count: usize, modulus: usize) -> Vec<f32> {
    let mut values = integers(count, modulus);
    values.iter_mut().step_by(17).for_each(|value| *value = f32::NAN);
    values
}

/// Zero for smaller values; NaN stays.
pub(crate) fn relu(value: f32) -> f32 {
    if value < 0.0 { 0.0 } else { value }
}

/// Equal, or both no number.
#[track_caller]
pub(crate) fn assert_same(got: f32, expected: f32, what: &str) {
    let same = got == expected || (got.is_nan() && expected.is_nan());
    assert!(same, "{what}: {got}, not {expected}");
}

#[test]
fn halves_are_what_they_stand_for() {
    assert_eq!([1.0, -2.0, 0.0, 2047.0, 0.5].map(half), [0x3c00, 0xc000, 0, 0x67ff, 0x3800]);
    for value in [1.0, -2.0, 0.0, 2047.0, 0.5, -1000.0] {
        assert_eq!(whole(half(value)), value);
    }
    assert_eq!(whole(half(f32::NEG_INFINITY)), f32::NEG_INFINITY);
    assert!(whole(half(f32::NAN)).is_nan());
}
