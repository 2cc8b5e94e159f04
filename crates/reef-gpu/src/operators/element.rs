//! Storage of numbers, and their rounding on the way there.

use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::hal::options::Precision;
use reef_op::tensor::{Half, Stored};
use reef_op::{Format, Layout, Tensor};

/// Element of native tensors and packed weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    /// 32-bit floats.
    F32,
    /// 32-bit floats whose products take 10 bits of mantissa: weights are rounded when packed.
    Tf32,
    /// 16-bit floats.
    F16,
    /// Numbers of 8 bits.
    Eight(Format),
}

impl Element {
    /// The element that this device uses.
    pub(super) fn of(gpu: &Gpu<impl Vendor>) -> Self {
        match gpu.precision() {
            Precision::Fp16 => Self::F16,
            Precision::Tf32 if has_tensor_cores(gpu) => Self::Tf32,
            Precision::Tf32 | Precision::Fp32 => Self::F32,
        }
    }

    /// The element that `tensor` has where native ones have this.
    pub(super) fn in_tensor(self, tensor: &Tensor) -> Self {
        match tensor.layout {
            Layout::Quantized(quantized) => Self::Eight(quantized.format()),
            Layout::Nchw | Layout::Native => self,
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::Tf32 => 4,
            Self::F16 => 2,
            Self::Eight(_) => 1,
        }
    }

    /// Suffix of the names of kernels that don't multiply on tensor cores.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::F32 | Self::Tf32 => "f32",
            Self::F16 => "f16",
            Self::Eight(format) => format.name(),
        }
    }

    /// Puts a weight into its place.
    pub(super) fn write(self, to: &mut [u8], value: f32) {
        match self {
            Self::F32 => to.copy_from_slice(&value.to_le_bytes()),
            Self::Tf32 => to.copy_from_slice(&tf32(value).to_le_bytes()),
            Self::F16 => to.copy_from_slice(&Half::from_f32(value).0.to_le_bytes()),
            Self::Eight(format) => to.copy_from_slice(&[format.bits_of(value)]),
        }
    }
}

/// Returns whether the device has what kernels/mma.h uses.
pub(super) fn has_tensor_cores(gpu: &Gpu<impl Vendor>) -> bool {
    gpu.facts().tensor_cores
}

/// Returns whether this device has kernels for tensors of 8 bits: next to halves, on tensor cores.
pub(super) fn has_quantized(gpu: &Gpu<impl Vendor>) -> bool {
    has_tensor_cores(gpu) && gpu.precision() == Precision::Fp16
}

/// Name of the kernels on tensor cores that multiply as the device does; `None` if it doesn't
/// multiply there.
pub(super) fn tensor_core_family(gpu: &Gpu<impl Vendor>) -> Option<&'static str> {
    match Element::of(gpu) {
        Element::Tf32 => Some("tf32"),
        Element::F16 if has_tensor_cores(gpu) => Some("f16"),
        _ => None,
    }
}

/// The nearest float with 10 bits of mantissa, as `cvt.rna.tf32.f32` has it.
fn tf32(value: f32) -> f32 {
    if !value.is_finite() {
        return value;
    }
    f32::from_bits((value.to_bits() + 0x1000) & !0x1fff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(value: f32) -> u16 {
        let mut stored = [0; 2];
        Element::F16.write(&mut stored, value);
        u16::from_le_bytes(stored)
    }

    #[test]
    fn halves_are_the_nearest_ones() {
        let rows = [
            (0.0, 0x0000),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.5, 0xc100),
            (65504.0, 0x7bff),
            (65519.9, 0x7bff),
            (65520.0, 0x7c00),
            (f32::INFINITY, 0x7c00),
            (1.0 + 1.0 / 2048.0, 0x3c00), // a tie goes to the even one
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (6.103_515_6e-5, 0x0400), // least normal
            (5.960_464_5e-8, 0x0001), // least of all
            (2.980_232_2e-8, 0x0000), // a tie
            (2.99e-8, 0x0001),
            (1.0e-9, 0x0000),
        ];
        for (value, want) in rows {
            assert_eq!(half(value), want, "{value}");
        }
        assert_eq!(half(f32::NAN) & 0x7fff, 0x7e00);
    }

    #[test]
    fn weights_for_tensor_cores_keep_10_bits() {
        assert_eq!(tf32(1.0), 1.0);
        assert_eq!(tf32(1.0 + 1.0 / 2048.0), 1.0 + 1.0 / 1024.0);
        assert_eq!(tf32(-1.0 - 1.0 / 4096.0), -1.0);
        assert!(tf32(f32::NAN).is_nan());
    }
}
