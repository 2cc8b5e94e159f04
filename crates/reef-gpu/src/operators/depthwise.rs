//! Convolutions of each channel by itself: kernels/depthwise.h.

use super::activation::ActivationParams;
use super::params::{Divisor, Params, View};
use reef_op::Window;

/// Threads of a block, and what they share: as in kernels/depthwise.h.
pub(super) const THREADS: u32 = 128;
const STRIP: usize = 4;
const LANES: usize = 32;
/// Windows and strides that there are kernels for.
const WINDOWS: [(usize, usize, &str); 5] = [
    (3, 1, "depthwise_3x3"),
    (3, 2, "depthwise_3x3_by_2"),
    (5, 1, "depthwise_5x5"),
    (5, 2, "depthwise_5x5_by_2"),
    (7, 1, "depthwise_7x7"),
];
/// Blocks are counted in 30 bits, and elements of an image in 31.
const MAX_BLOCKS: usize = 1 << 30;
const MAX_ELEMENTS: u128 = 1 << 31;

/// `Depthwise` in kernels/depthwise.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct DepthwiseParams {
    input: View,
    output: View,
    weights: u64,
    bias: u64,
    by_groups: Divisor,
    by_strips: Divisor,
    by_rows: Divisor,
    channels: u32,
    groups: u32,
    strips: u32,
    count: u32,
    pad_up: u32,
    pad_left: u32,
    activation: ActivationParams,
    late: u32,
}

// SAFETY: `repr(C)`; fields of 8 bytes stand before those of 4, of which there is an even number.
unsafe impl Params for DepthwiseParams {}

/// Images, the windows over them, and what becomes of each sum. Weights are
/// `[channels][rows][columns]`; the bias may be at 0, which is none.
#[derive(Debug)]
pub(super) struct Sliding {
    pub(super) input: View,
    pub(super) output: View,
    pub(super) images: usize,
    pub(super) channels: usize,
    pub(super) window: Window,
    pub(super) weights: u64,
    pub(super) bias: u64,
    pub(super) activation: ActivationParams,
    /// A launch before this one may write the weights.
    pub(super) late: bool,
}

/// The kernel that slides this window, without the element in its name.
pub(super) fn kernel(window: &Window) -> Option<&'static str> {
    let [rows, columns] = window.size;
    let [down, right] = window.stride;
    let square = rows == columns && down == right;
    let known = WINDOWS.iter().find(|(size, stride, _)| square && [rows, down] == [*size, *stride]);
    known.map(|(_, _, name)| *name)
}

impl Sliding {
    /// The kernel's parameters, and its number of blocks; `None` if there are none, or more than it
    /// can count.
    pub(super) fn params(&self) -> Option<(DepthwiseParams, u32)> {
        let View { height, width, .. } = self.output;
        let sizes = [self.input.height, self.input.width, height, width].map(|size| size as usize);
        if [self.images, self.channels].iter().chain(&sizes).any(|&size| size == 0) {
            return None;
        }
        let groups = self.channels.div_ceil(LANES);
        let strips = (width as usize).div_ceil(STRIP);
        let count = self.images * height as usize * strips;
        let blocks = count.div_ceil(THREADS as usize / LANES).checked_mul(groups)?;
        let [pad_up, pad_left] = self.window.padding.map(u32::try_from);
        let small = |view: &View| {
            [view.height, view.width, view.pixel].map(u128::from).iter().product::<u128>()
                < MAX_ELEMENTS
        };
        if blocks >= MAX_BLOCKS || !small(&self.input) || !small(&self.output) {
            return None;
        }
        let params = DepthwiseParams {
            input: self.input,
            output: self.output,
            weights: self.weights,
            bias: self.bias,
            by_groups: Divisor::new(groups as u32),
            by_strips: Divisor::new(strips as u32),
            by_rows: Divisor::new(height),
            channels: self.channels as u32,
            groups: groups as u32,
            strips: strips as u32,
            count: count as u32,
            pad_up: pad_up.ok()?,
            pad_left: pad_left.ok()?,
            activation: self.activation,
            late: self.late.into(),
        };
        Some((params, blocks as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<DepthwiseParams>(), 160);
    }

    #[test]
    fn there_are_kernels_for_small_squares() {
        let window = |size, stride| Window { size, stride, padding: [1, 1] };
        assert_eq!(kernel(&window([5, 5], [2, 2])), Some("depthwise_5x5_by_2"));
        for (size, stride) in
            [([3, 5], [1, 1]), ([3, 3], [1, 2]), ([7, 7], [2, 2]), ([9, 9], [1, 1])]
        {
            assert_eq!(kernel(&window(size, stride)), None);
        }
    }
}
