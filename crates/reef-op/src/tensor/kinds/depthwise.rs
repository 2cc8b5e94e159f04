//! Depthwise convolutions: each channel by itself.

use super::job::{Job, Outputs, TILE};
use crate::tensor::element::Element;
use crate::tensor::spec::Spec;
use crate::tensor::view::product;
use reef_core::{Error, Result};

/// `output[n, c, y, x] = bias[c] + sum over i, j of weights[c, i, j] * input[n, c, v, w]`, with
/// `v = y * stride[0] + i - before[0]` and `w = x * stride[1] + j - before[1]`, where the input is
/// 0 outside of itself.
///
/// Inputs are the images, the weights, and the bias if there is one: floats of 32 bits, as the
/// output. Sums are made row by row. `last` gives the layout of images.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Depthwise {
    /// Images, channels, rows and columns of the input.
    pub shape: [usize; 4],
    /// Rows and columns of the output.
    pub over: [usize; 2],
    /// Rows and columns of the window.
    pub size: [usize; 2],
    /// Steps between windows.
    pub stride: [usize; 2],
    /// Zeros before the first row and the first column.
    pub before: [usize; 2],
    /// Channels are the last axis, of the input and of the output; else they follow the images.
    pub last: [bool; 2],
}

/// Upper bound of each size: sums and products of two of them don't wrap.
const MAX_SIZE: usize = 1 << 28;
/// Products between two checks whether to stop.
const PRODUCTS: usize = 16 * 1024;

impl Depthwise {
    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let [images, channels, ..] = self.shape;
        let small = [&self.size, &self.stride, &self.before, &self.over]
            .into_iter()
            .flatten()
            .chain(&self.shape)
            .all(|&size| size <= MAX_SIZE);
        let moves = self.size.iter().chain(&self.stride).all(|&size| size > 0);
        let sizes =
            [product(&self.shape), product(&[channels, self.size[0], self.size[1]]), channels];
        let singles = inputs.iter().chain([output]).all(|spec| spec.element == Element::F32);
        let fits = matches!(inputs.len(), 2 | 3)
            && inputs.iter().zip(sizes).all(|(spec, size)| spec.elements() == size)
            && output.elements() == product(&[images, channels, self.over[0], self.over[1]]);
        if small && moves && singles && fits {
            return Ok(());
        }
        Err(Error::invalid(
            "depthwise convolution",
            format!("{self:?} cannot make {output} of {inputs:?}"),
        ))
    }

    /// Returns the distances of images, channels, rows and columns in the input (0) or the output
    /// (1).
    pub fn strides(&self, side: usize) -> [usize; 4] {
        let [_, channels, height, width] = self.shape;
        let [height, width] = if side == 0 { [height, width] } else { self.over };
        let image = product(&[channels, height, width]);
        if self.last[side] {
            [image, 1, product(&[width, channels]), channels]
        } else {
            [image, product(&[height, width]), width, 1]
        }
    }

    pub(crate) fn taps(&self) -> usize {
        product(&self.size)
    }

    pub(crate) fn compute(&self, mut job: Job<'_>) -> Outputs {
        let [input, weights] = [0, 1].map(|k| job.singles(k));
        let bias = (job.inputs.len() > 2).then(|| job.singles(2));
        let [images, channels, ..] = self.shape;
        let [height, width] = self.over;
        // Images, channels, rows and columns by the output's own order.
        let order = if self.last[1] { [0, 2, 3, 1] } else { [0, 1, 2, 3] };
        let dims = order.map(|axis| [images, channels, height, width][axis]);
        let each = (PRODUCTS / self.taps().max(1)).clamp(1, TILE);
        for from in job.range.clone().step_by(each) {
            if job.stopped() {
                return None;
            }
            let some = from..job.range.end.min(from + each);
            let sums = some.map(|mut at| {
                let mut place = [0; 4];
                for (&size, axis) in dims.iter().zip(order).rev() {
                    (place[axis], at) = (at % size, at / size);
                }
                let bias = bias.as_ref().map_or(0.0, |bias| bias[place[1]]);
                self.sum(&input, &weights, place) + bias
            });
            let sums: Vec<f32> = sums.collect();
            job.push(&sums);
        }
        Some(job.output)
    }

    fn sum(&self, input: &[f32], weights: &[f32], [n, c, y, x]: [usize; 4]) -> f32 {
        let [_, _, height, width] = self.shape;
        let [image, channel, row, column] = self.strides(0);
        let [rows, columns] = self.size;
        let weights = &weights[c * self.taps()..][..self.taps()];
        let mut sum = 0.0;
        for (i, weights) in (0..rows).zip(weights.chunks_exact(columns)) {
            let y = (y * self.stride[0] + i).checked_sub(self.before[0]).filter(|y| *y < height);
            for (j, weight) in weights.iter().enumerate() {
                let x = (x * self.stride[1] + j).checked_sub(self.before[1]).filter(|x| *x < width);
                let place = y.zip(x).map(|(y, x)| n * image + c * channel + y * row + x * column);
                sum += weight * place.map_or(0.0, |at| input[at]);
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::array::Array;
    use crate::tensor::op::{Kind, TensorOp};

    /// Two channels of 2 x 3, windows of 2 x 2, every column, zeros above and on the left.
    fn op(last: [bool; 2]) -> TensorOp {
        let single = |dims: &[usize]| Spec { element: Element::F32, dims: dims.to_vec() };
        let kind = Kind::Depthwise(Depthwise {
            shape: [1, 2, 2, 3],
            over: [1, 3],
            size: [2, 2],
            stride: [2, 1],
            before: [1, 1],
            last,
        });
        let inputs = vec![single(&[1, 2, 2, 3]), single(&[2, 1, 2, 2]), single(&[2])];
        TensorOp { kind, inputs, output: single(&[1, 2, 1, 3]) }
    }

    #[test]
    fn each_channel_has_windows_of_its_own_in_any_layout() {
        let planes = [1., 2., 3., 9., 9., 9., 4., 5., 6., 9., 9., 9.];
        let pixels = [1., 4., 2., 5., 3., 6., 9., 9., 9., 9., 9., 9.];
        let weights = Array::F32(vec![7., 7., 1., 10., 7., 7., 0., 1.]);
        let bias = Array::F32(vec![0.5, 0.0]);
        // The upper row of the window is on zeros.
        for (last, want) in [
            ([false, false], [10.5, 21.5, 32.5, 4., 5., 6.]),
            ([false, true], [10.5, 4., 21.5, 5., 32.5, 6.]),
            ([true, false], [10.5, 21.5, 32.5, 4., 5., 6.]),
        ] {
            let input = Array::F32(if last[0] { pixels } else { planes }.to_vec());
            let values = [input.values(), weights.values(), bias.values()];
            let made = |range| op(last).compute(&values, range, &|| false).unwrap().unwrap();
            assert_eq!(made(0..6), Array::F32(want.to_vec()));
            assert_eq!(made(1..3), Array::F32(want[1..3].to_vec()));
            assert!(op(last).compute(&values, 0..6, &|| true).unwrap().is_none());
        }
    }

    #[test]
    fn invalid_depthwise_is_refused() {
        let with = |change: fn(&mut Depthwise)| {
            let mut op = op([true; 2]);
            if let Kind::Depthwise(depthwise) = &mut op.kind {
                change(depthwise);
            }
            op
        };
        let few = TensorOp { inputs: op([true; 2]).inputs[..1].to_vec(), ..op([true; 2]) };
        for op in [
            few,
            with(|op| op.stride[0] = 0),
            with(|op| op.size = [4, 0]),
            with(|op| op.over = [2, 3]),
            with(|op| op.shape[1] = 4),
            with(|op| op.before[1] = usize::MAX),
        ] {
            assert!(matches!(op.check(), Err(Error::Invalid(_))), "{op:?}");
        }
    }
}
