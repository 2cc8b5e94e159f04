//! A convolution as a product of matrices, whose sums are cut into slabs.

use crate::operators::element::Element;
use crate::operators::operand::{Operand, is_planar};
use reef_core::op::{Conv2d, Layout, Tensor};

/// `SLAB` in kernels/mma.h.
pub(in crate::operators) const SLAB: usize = 256;
/// Most rows and columns of a window whose places tiles know: `LARGEST_WINDOW` in kernels/conv.h.
const LARGEST_WINDOW: usize = 15;
/// Bytes that tiles copy at a time.
const CHUNK: usize = 16;

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

/// What tiles make of the input.
#[derive(Debug, Clone, Copy)]
pub(in crate::operators) struct ImplicitGemm {
    /// Of the input, filled up to whole chunks.
    pub(in crate::operators) channels: usize,
    /// Slabs of the sum for one output.
    pub(in crate::operators) slabs: usize,
    /// Whether the input must be brought into this form first.
    pub(in crate::operators) converts: bool,
}

impl ImplicitGemm {
    /// `None` if tiles don't fit.
    pub(in crate::operators) fn new(op: &Conv2d, element: Element) -> Option<Self> {
        if op.groups != 1
            || is_planar(&op.output)
            || op.window.size.iter().any(|&n| n > LARGEST_WINDOW)
        {
            return None;
        }
        let converts = !Operand::at(0, op.input, element).is_in_pieces_of(CHUNK);
        let channels = op.input.channels.next_multiple_of(CHUNK / element.bytes());
        let sum = op.window.size.iter().product::<usize>() * channels * element.bytes();
        Some(Self { channels, slabs: sum.div_ceil(SLAB), converts })
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
