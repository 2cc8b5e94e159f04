//! A convolution as a product of matrices, whose sums are cut into slabs.

use crate::operators::element::Element;
use crate::operators::operand::{Operand, is_planar};
use reef_op::{Conv2d, Layout, Tensor};

/// `SLAB` in kernels/mma.h.
pub(in crate::operators) const SLAB: usize = 256;
/// Maximum of rows and columns of a window whose places tiles know: `LARGEST_WINDOW` in
/// kernels/conv.h.
const LARGEST_WINDOW: usize = 15;
/// Bytes that tiles copy at a time.
const CHUNK: usize = 16;
/// Bytes that kernels count in one word, sign included: from a window's first tap to any other, and
/// of all terms of a sum.
const MAX_WORD_BYTES: u128 = 1 << 31;

/// The product of matrices that a convolution is.
#[derive(Debug, Clone, Copy)]
pub(in crate::operators) struct Shape {
    pub(in crate::operators) pixels: usize,
    pub(in crate::operators) outputs: usize,
    pub(in crate::operators) slabs: usize,
}

impl Shape {
    /// Bytes of the partial sums of this many splits.
    pub(in crate::operators) fn partials(&self, splits: usize) -> usize {
        if splits == 1 { 0 } else { splits * self.pixels * self.outputs.next_multiple_of(4) * 4 }
    }
}

/// Product of matrices that tiles make of a convolution.
#[derive(Debug, Clone, Copy)]
pub(in crate::operators) struct ImplicitGemm {
    /// Channels of the input, filled up to whole chunks.
    pub(in crate::operators) channels: usize,
    /// Slabs of the sum for one output.
    pub(in crate::operators) slabs: usize,
    /// The input must be brought into this form first.
    pub(in crate::operators) converts: bool,
}

impl ImplicitGemm {
    /// `None` if tiles don't fit. `element` is that of native tensors.
    pub(in crate::operators) fn new(op: &Conv2d, element: Element) -> Option<Self> {
        if op.groups != 1
            || is_planar(&op.output)
            || op.window.size.iter().any(|&n| n > LARGEST_WINDOW)
        {
            return None;
        }
        let converts = !Operand::at(0, op.input, element).is_in_pieces_of(CHUNK);
        let element = element.in_tensor(&op.input);
        if converts && matches!(element, Element::Eight(_)) {
            return None;
        }
        let channels = op.input.channels.next_multiple_of(CHUNK / element.bytes());
        let sum = op.window.size.iter().product::<usize>() * channels * element.bytes();
        Some(Self { channels, slabs: sum.div_ceil(SLAB), converts })
    }

    /// Returns whether the words of kernels/conv.h count as far as this input and its sums reach.
    ///
    /// Sizes were checked by themselves before. Packed weights serve inputs of any size, so this is
    /// not a part of [`new`](Self::new).
    pub(in crate::operators) fn fits_words(&self, op: &Conv2d, element: Element) -> bool {
        let pitch = if self.converts { self.channels } else { op.input.of };
        let [rows, columns] = op.window.size.map(|size| size as u128);
        let last_tap = (rows - 1) * op.input.width as u128 + columns - 1;
        let bytes = element.in_tensor(&op.input).bytes() as u128;
        let reach = (last_tap * pitch as u128 + self.channels as u128) * bytes;
        reach.max((self.slabs * SLAB) as u128) < MAX_WORD_BYTES
    }

    /// The input in the form that tiles take.
    pub(in crate::operators) fn tensor(&self, input: &Tensor) -> Tensor {
        Tensor::new(Layout::Native, [input.batch, self.channels, input.height, input.width])
    }

    pub(in crate::operators) fn converted_bytes(&self, op: &Conv2d, element: Element) -> usize {
        if self.converts { self.tensor(&op.input).elements() * element.bytes() } else { 0 }
    }

    /// The product of matrices that it is.
    pub(in crate::operators) fn shape(&self, op: &Conv2d) -> Shape {
        let Tensor { batch, channels: outputs, height, width, .. } = op.output;
        Shape { pixels: batch * height * width, outputs, slabs: self.slabs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reef_op::Window;

    fn conv(channels: usize, width: usize, [rows, columns]: [usize; 2]) -> Conv2d {
        let tensor = Tensor::new(Layout::Native, [1, channels, rows, width]);
        let window = Window { size: [rows, columns], stride: [1, 1], padding: [0, 0] };
        let (residual, relu, function) = (false, false, None);
        Conv2d { input: tensor, output: tensor, window, groups: 1, residual, relu, function }
    }

    /// `next_pixels` in kernels/conv.h, in its words.
    fn tap_of_kernel([down, right, channel]: [u32; 3], width: u32, pitch: u32, size: i32) -> i32 {
        let pixels = down.wrapping_mul(width).wrapping_add(right) as i32;
        pixels.wrapping_mul(pitch as i32).wrapping_add(channel as i32).wrapping_mul(size)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

        #[test]
        fn taps_of_admitted_inputs_fit_the_kernel_words(
            channels in 1usize..4096, width in 1usize..(1 << 28), rows in 1usize..16, columns in 1usize..16,
        ) {
            let op = conv(channels, width, [rows, columns]);
            for element in [Element::F32, Element::F16] {
                let gemm = ImplicitGemm::new(&op, element).unwrap();
                if !gemm.fits_words(&op, element) {
                    continue;
                }
                let (pitch, size) = (gemm.channels as u32, element.bytes() as i32);
                let last = [rows as u32 - 1, columns as u32 - 1, pitch - 1];
                let places = (last[0] as i128 * width as i128 + last[1] as i128) * pitch as i128;
                let exact = (places + last[2] as i128) * size as i128;
                prop_assert_eq!(tap_of_kernel(last, width as u32, pitch, size) as i128, exact);
                prop_assert!(u32::try_from(gemm.slabs * SLAB).is_ok());
            }
        }
    }

    #[test]
    fn tap_of_refused_input_wraps_in_the_kernel_words() {
        let op = conv(512, 524_288, [3, 3]);
        let gemm = ImplicitGemm::new(&op, Element::F32).unwrap();
        assert!(!gemm.fits_words(&op, Element::F32));
        assert_eq!(tap_of_kernel([2, 0, 0], 524_288, 512, 4), i32::MIN, "2 GiB before the pixel");
    }
}
