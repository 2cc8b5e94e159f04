//! Filters as [`block`](super::block) wants them, and which convolutions have them.
//!
//! ```text
//! bias of every output, then for each COLUMNS outputs: 16 panels, one for each point,
//!                       of one row of COLUMNS numbers per channel
//! ```

use super::turn::{POINTS, SIDES};
use crate::kernels::blocks::operand::is_planar;
use crate::kernels::blocks::shape::GroupShape;
use crate::kernels::product::tile::COLUMNS;
use crate::kernels::values::lanes::LANES;
use reef_op::{Conv2d, Window};

/// Most filters: layers with more have few tiles in most networks, and bringing in the turned
/// filters, 16 numbers for nine, then takes longer than the products.
const MAX_FILTERS: usize = 256 * 256;
/// Fewest channels: with fewer, turning takes longer than it saves.
const MIN_CHANNELS: usize = 32;
/// A filter's side.
const SIDE: usize = 3;

/// Returns whether a convolution is done this way on this machine. That depends on its filters
/// alone: packed ones serve any batch, rows and columns, and an image's bits are the same in any
/// batch.
pub(in crate::kernels) fn are_turned(op: &Conv2d) -> bool {
    let Window { size, stride, .. } = op.window;
    let (inputs, outputs) = (op.input.channels, op.output.channels);
    let fits = size == [SIDE; 2] && stride == [1, 1] && op.groups == 1 && !is_planar(&op.input);
    let pays = inputs >= MIN_CHANNELS
        && inputs.is_multiple_of(LANES)
        && outputs >= MIN_CHANNELS
        && inputs * outputs <= MAX_FILTERS;
    fits && pays && is_x86_feature_detected!("avx512f")
}

/// Tiles of all images.
pub(super) fn tiles(op: &Conv2d) -> usize {
    let [rows, columns] = [op.output.height, op.output.width].map(|size| size.div_ceil(SIDES[0]));
    op.output.batch * rows * columns
}

/// Each sum of products that a tile's points are, as one: channels of all points are its terms.
pub(super) fn shape(op: &Conv2d) -> GroupShape {
    GroupShape { outputs: op.output.channels, depth: op.input.channels * POINTS }
}

/// Floats of bias and panels.
pub(in crate::kernels) fn packed_len(op: &Conv2d) -> usize {
    shape(op).packed()
}

/// Writes the bias and the turned filters of an op that [`are_turned`] approves of.
pub(in crate::kernels) fn pack(op: &Conv2d, weights: &[f32], bias: &[f32], to: &mut [f32]) {
    let (shape, channels) = (shape(op), op.input.channels);
    let (to_bias, panels) = to.split_at_mut(shape.padded());
    to_bias[..bias.len()].copy_from_slice(bias);
    let filters = weights.as_chunks::<{ SIDE * SIDE }>().0.chunks_exact(channels);
    for (output, filters) in filters.enumerate() {
        let panel = &mut panels[output / COLUMNS * COLUMNS * shape.depth..];
        for (channel, filter) in filters.iter().enumerate() {
            for (point, number) in turned(filter).into_iter().enumerate() {
                panel[(point * channels + channel) * COLUMNS + output % COLUMNS] = number;
            }
        }
    }
}

/// `G g Gᵀ`.
fn turned(filter: &[f32; SIDE * SIDE]) -> [f32; POINTS] {
    let line = |[a, b, c]: [f64; SIDE]| [a, (a + b + c) / 2.0, (a - b + c) / 2.0, c];
    let g = |row: usize, column: usize| f64::from(filter[row * SIDE + column]);
    let columns = [0, 1, 2].map(|column| line([0, 1, 2].map(|row| g(row, column))));
    std::array::from_fn(|i| line(columns.map(|column| column[i / 4]))[i % 4] as f32)
}

/// Inverse of [`turned`]: the weight at `[row, column]` of the filter whose point `i` is
/// `number(i)`.
#[inline(always)]
pub(super) fn weight([row, column]: [usize; 2], number: impl Fn(usize) -> f32) -> f32 {
    let line = |row: usize| match column {
        0 => number(4 * row),
        1 => number(4 * row + 1) - number(4 * row + 2),
        _ => number(4 * row + 3),
    };
    match row {
        0 => line(0),
        1 => line(1) - line(2),
        _ => line(3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::{Layout, Tensor};

    /// A convolution of images with this batch, rows and columns, and this many channels in and
    /// out.
    fn op([batch, height, width]: [usize; 3], [inputs, outputs]: [usize; 2]) -> Conv2d {
        let tensor = |channels| Tensor::new(Layout::Native, [batch, channels, height, width]);
        let window = Window { size: [3, 3], stride: [1, 1], padding: [1, 1] };
        Conv2d::new(tensor(inputs), tensor(outputs), window)
    }

    #[test]
    fn filters_alone_say_whether_they_are_turned() {
        for channels in [[64, 64], [256, 256], [512, 512], [16, 64], [40, 40]] {
            let said = [[1, 56, 56], [1, 7, 7], [8, 7, 7], [1, 1, 1], [3, 224, 1]]
                .map(|size| (are_turned(&op(size, channels)), packed_len(&op(size, channels))));
            assert_eq!(said, [said[0]; 5], "{channels:?}");
        }
        let has = is_x86_feature_detected!("avx512f");
        assert_eq!(are_turned(&op([1, 56, 56], [64, 64])), has);
        assert!(!are_turned(&op([1, 56, 56], [512, 512])));
    }

    #[test]
    fn turned_filter_can_be_turned_back() {
        let filter = [1.5, -2.0, 3.25, 0.5, 7.0, -1.0, 2.0, 0.125, -4.0];
        let numbers = turned(&filter);
        for (i, want) in filter.into_iter().enumerate() {
            let have = weight([i / 3, i % 3], |point| numbers[point]);
            assert!((have - want).abs() < 1e-5, "{have}, not {want} at {i}");
        }
    }
}
