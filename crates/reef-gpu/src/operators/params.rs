//! Parameters that kernels of kernels/network.cu take after the guard, field by field.

use super::activation::ActivationParams;
use reef_op::Window;

/// A struct that a kernel takes by value.
///
/// # Safety
///
/// It is `repr(C)` without padding, and its size is a multiple of 8 bytes.
pub(super) unsafe trait Params: Copy {
    /// As words in the machine's order.
    fn words(&self) -> Box<[u64]> {
        const { assert!(size_of::<Self>().is_multiple_of(8)) };
        let mut words = vec![0_u64; size_of::<Self>() / 8].into_boxed_slice();
        // SAFETY: both are that long and don't overlap, and `Self` has no padding.
        unsafe {
            let from = std::ptr::from_ref(self).cast::<u8>();
            std::ptr::copy_nonoverlapping(from, words.as_mut_ptr().cast(), size_of::<Self>());
        }
        words
    }
}

/// `Divisor` in kernels/element.h: divides numbers below 2^31.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Divisor {
    factor: u32,
    shift: u32,
}

impl Divisor {
    /// `by` is at least 1 and below 2^31.
    pub(super) fn new(by: u32) -> Self {
        let shift = 31 + by.next_power_of_two().trailing_zeros();
        Self { factor: (1_u64 << shift).div_ceil(u64::from(by)) as u32, shift }
    }

    /// As it lies in memory.
    pub(super) fn words(self) -> [u32; 2] {
        [self.factor, self.shift]
    }
}

/// `View` in kernels/element.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct View {
    pub(super) data: u64,
    pub(super) image: u64,
    pub(super) pixel: u32,
    pub(super) channel: u32,
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) wide: u32,
    pub(super) unused: u32,
}

/// `Conv` in kernels/conv.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct ConvParams {
    pub(super) input: u64,
    pub(super) weights: u64,
    pub(super) bias: u64,
    pub(super) residual: u64,
    pub(super) output: u64,
    pub(super) partials: u64,
    pub(super) arrivals: u64,
    pub(super) pixels: u32,
    pub(super) outputs: u32,
    pub(super) slabs: u32,
    pub(super) splits: u32,
    pub(super) by_output_tiles: Divisor,
    pub(super) by_pixel_tiles: Divisor,
    pub(super) output_tiles: u32,
    pub(super) pixel_tiles: u32,
    pub(super) by_image: Divisor,
    pub(super) by_line: Divisor,
    pub(super) image: u32,
    pub(super) line: u32,
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) channels: u32,
    pub(super) input_pitch: u32,
    pub(super) output_pitch: u32,
    pub(super) window: WindowParams,
    pub(super) by_channels: Divisor,
    pub(super) by_window_width: Divisor,
    pub(super) slab_rows: u32,
    pub(super) slab_columns: u32,
    pub(super) slab_channels: u32,
    pub(super) activation: ActivationParams,
    pub(super) fours: u32,
    pub(super) rounds: u32,
    pub(super) unused: u32,
}

/// `CONVS` there: convolutions of a group at most.
pub(super) const CONVS: usize = 4;

/// `ConvGroup` there.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct ConvGroupParams {
    pub(super) of: [ConvParams; CONVS],
    /// The first block of each.
    pub(super) begins: [u32; CONVS],
}

/// The window's part of several structs.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowParams {
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) stride_down: u32,
    pub(super) stride_right: u32,
    pub(super) pad_up: u32,
    pub(super) pad_left: u32,
}

/// `ConvAny` in kernels/conv_any.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct ConvAnyParams {
    pub(super) input: View,
    pub(super) output: View,
    pub(super) residual: View,
    pub(super) weights: u64,
    pub(super) bias: u64,
    pub(super) count: u64,
    pub(super) blocks: u32,
    pub(super) outputs: u32,
    pub(super) channels: u32,
    pub(super) groups: u32,
    pub(super) window: WindowParams,
    pub(super) activation: ActivationParams,
    pub(super) unused: u32,
}

/// `Pool` in kernels/pool.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolParams {
    pub(super) input: View,
    pub(super) output: View,
    pub(super) count: u64,
    pub(super) blocks: u32,
    pub(super) channels: u32,
    pub(super) window: WindowParams,
    pub(super) average: u32,
    pub(super) scale: f32,
}

/// `Map` in kernels/network.cu.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct MapParams {
    pub(super) input: View,
    pub(super) output: View,
    pub(super) weights: u64,
    pub(super) bias: u64,
    pub(super) count: u64,
    pub(super) blocks: u32,
    pub(super) channels: u32,
    pub(super) given: u32,
    pub(super) relu: u32,
    pub(super) by_channels: Divisor,
    pub(super) rounds: u32,
    pub(super) unused: u32,
}

/// `Pointwise` in kernels/pointwise.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct PointwiseParams {
    pub(super) input: View,
    pub(super) factor: View,
    pub(super) output: View,
    pub(super) count: u64,
    pub(super) blocks: u32,
    pub(super) channels: u32,
    pub(super) pixels: u32,
    pub(super) activation: ActivationParams,
    pub(super) by_channels: Divisor,
    pub(super) by_pixels: Divisor,
}

/// `Linear` in kernels/network.cu.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct LinearParams {
    pub(super) input: View,
    pub(super) output: View,
    pub(super) weights: u64,
    pub(super) bias: u64,
    pub(super) images: u32,
    pub(super) inputs: u32,
    pub(super) outputs: u32,
    pub(super) activation: ActivationParams,
    pub(super) fours: u32,
    pub(super) unused: u32,
}

// SAFETY: fields of 8 bytes stand before those of 4, of which there is an even number.
unsafe impl Params for ConvParams {}
// SAFETY: `repr(C)`; each `ConvParams` is a multiple of 8 bytes without padding, and the 4 words
// behind them are 16 bytes.
unsafe impl Params for ConvGroupParams {}
// SAFETY: `repr(C)`; each `View` is a multiple of 8 bytes, fields of 8 bytes come next, then 14
// words of 4.
unsafe impl Params for ConvAnyParams {}
// SAFETY: `repr(C)`; each `View` is a multiple of 8 bytes, the field of 8 bytes comes next, then 10
// words of 4.
unsafe impl Params for PoolParams {}
// SAFETY: `repr(C)`; each `View` is a multiple of 8 bytes, fields of 8 bytes come next, then 8
// words of 4.
unsafe impl Params for MapParams {}
// SAFETY: `repr(C)`; each `View` is a multiple of 8 bytes, the field of 8 bytes comes next, then 10
// words of 4.
unsafe impl Params for PointwiseParams {}
// SAFETY: `repr(C)`; each `View` is a multiple of 8 bytes, fields of 8 bytes come next, then 8
// words of 4.
unsafe impl Params for LinearParams {}

pub(super) fn window(window: &Window) -> WindowParams {
    let Window { size, stride, padding } = window;
    WindowParams {
        height: size[0] as u32,
        width: size[1] as u32,
        stride_down: stride[0] as u32,
        stride_right: stride[1] as u32,
        pad_up: padding[0] as u32,
        pad_left: padding[1] as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_as_long_as_the_kernels() {
        let sizes = [
            size_of::<View>(),
            size_of::<ConvParams>(),
            size_of::<ConvGroupParams>(),
            size_of::<ConvAnyParams>(),
            size_of::<PoolParams>(),
            size_of::<MapParams>(),
            size_of::<PointwiseParams>(),
            size_of::<LinearParams>(),
        ];
        assert_eq!(sizes, [40, 216, 880, 200, 128, 136, 168, 128]);
    }

    #[test]
    fn a_divisor_divides() {
        for by in [1, 2, 3, 7, 49, 56, 196, 1000, 1024, 12_544, 65_537, (1 << 31) - 1] {
            let Divisor { factor, shift } = Divisor::new(by);
            let last = (1 << 31) - 1;
            for n in (0..3000).chain([by - 1, by, last / by * by - 1, last / by * by, last]) {
                let got = (u64::from(n) * u64::from(factor)) >> shift;
                assert_eq!(got, u64::from(n / by), "{n} / {by}");
            }
        }
    }
}
