//! Convolutions between numbers of 8 bits, with their zero points.

use super::job::{Job, Outputs, TILE};
use crate::tensor::array::Array;
use crate::tensor::element::Element;
use crate::tensor::spec::Spec;
use crate::tensor::view::product;
use reef_core::{Error, Result};

/// `output = round(value / scales[1]) + zeros[1]`, within -127 and 127. The value is the sum of
/// `weights * (input - zeros[0]) * scales[0]` over a window and all channels, plus the bias, and
/// with `relu` at least 0. Outside of itself the input is `zeros[0]`.
///
/// Inputs are images of `int8`, weights, and the bias if there is one, both as singles or both of
/// `int32`. Behind integers there may be factors, one single for each output: the weights are those
/// integers times the factor, and the bias times `scales[0]` and the factor. The output is of
/// `int8`. Channels of images are the last axis; weights are
/// `[outputs][channels][rows][columns]`. A device may round the weights of each output to integers
/// from -127 to 127 times a number of that output.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Eight {
    /// Images, channels, rows and columns of the input.
    pub shape: [usize; 4],
    /// Channels, rows and columns of the output.
    pub over: [usize; 3],
    /// Rows and columns of the window.
    pub size: [usize; 2],
    /// Steps between windows.
    pub stride: [usize; 2],
    /// Rows above and below the input, and columns on both sides of it, that windows see.
    pub padding: [usize; 2],
    /// Values of one step of the input's and of the output's numbers.
    pub scales: [f32; 2],
    /// The input's and the output's numbers that stand for the value 0.
    pub zeros: [i8; 2],
    /// Negative values become 0.
    pub relu: bool,
}

/// Upper bound of each size: sums and products of two of them don't wrap.
const MAX_SIZE: usize = 1 << 28;
/// Products between two checks whether to stop.
const PRODUCTS: usize = 16 * 1024;

impl Eight {
    pub(crate) fn check(&self, inputs: &[Spec], output: &Spec) -> Result<()> {
        let [images, channels, ..] = self.shape;
        let [outputs, down, right] = self.over;
        let [rows, columns] = self.size;
        let weights = product(&[outputs, channels, rows, columns]);
        let sizes = [product(&self.shape), weights, outputs, outputs];
        let elements: Vec<Element> = inputs.iter().map(|spec| spec.element).collect();
        let fits = Roles::of(&elements).is_some()
            && inputs.iter().zip(sizes).all(|(spec, size)| spec.elements() == size)
            && output.element == Element::I8
            && output.elements() == product(&[images, outputs, down, right]);
        let usable = |scale: &f32| scale.is_normal() && *scale > 0.0;
        if self.windows_fit() && fits && self.scales.iter().all(usable) {
            return Ok(());
        }
        Err(Error::invalid(
            "convolution of numbers of 8 bits",
            format!("{self:?} cannot make {output} of {inputs:?}"),
        ))
    }

    /// Returns whether sizes are small, and windows over the padded input as many as outputs.
    fn windows_fit(&self) -> bool {
        let all = [&self.size[..], &self.stride, &self.padding, &self.shape, &self.over].concat();
        let moves = !self.size.contains(&0) && !self.stride.contains(&0);
        let along = |axis: usize| {
            let padded = self.shape[axis + 2] + 2 * self.padding[axis];
            let steps = padded.checked_sub(self.size[axis]);
            steps.map(|steps| steps / self.stride[axis] + 1) == Some(self.over[axis + 1])
        };
        all.iter().all(|&size| size <= MAX_SIZE) && moves && along(0) && along(1)
    }

    /// Returns the number of products of one output.
    pub fn terms(&self) -> usize {
        product(&[self.shape[1], self.size[0], self.size[1]])
    }

    /// Returns weights and bias as singles, of the arrays of all inputs but the first; without a
    /// bias the second is empty. `None` if these are not inputs of such a convolution.
    pub fn values(&self, constants: &[&Array]) -> Option<[Vec<f32>; 2]> {
        let elements = constants.iter().map(|array| array.element());
        let elements: Vec<Element> = [Element::I8].into_iter().chain(elements).collect();
        let roles = Roles::of(&elements)?;
        let singles = |k: usize| -> Vec<f32> {
            constants[k - 1].values().to_f64().into_iter().map(|number| number as f32).collect()
        };
        Some(self.values_of(&roles, singles))
    }

    /// Weights and bias of inputs, which `singles` gives by their numbers.
    fn values_of(&self, roles: &Roles, singles: impl Fn(usize) -> Vec<f32>) -> [Vec<f32>; 2] {
        let other = |k: Option<usize>| k.map(&singles).unwrap_or_default();
        let (mut weights, mut bias) = (singles(1), other(roles.bias));
        if roles.of_integers {
            let factors = other(roles.factors);
            let factor = |output: usize| factors.get(output).copied().unwrap_or(1.0);
            let rows = weights.chunks_mut(self.terms().max(1)).enumerate();
            rows.for_each(|(output, row)| row.iter_mut().for_each(|w| *w *= factor(output)));
            let biases = bias.iter_mut().enumerate();
            biases.for_each(|(output, bias)| *bias *= self.scales[0] * factor(output));
        }
        [weights, bias]
    }

    /// Returns the bias with which a convolution of `input * scales[0]` gives
    /// `output * scales[1]`: it has the zero points. Without a bias, `bias` is empty.
    pub fn moved_bias(&self, weights: &[f32], bias: &[f32]) -> Vec<f32> {
        let [zero_x, zero_y] = [0, 1].map(|k| f64::from(self.zeros[k]) * f64::from(self.scales[k]));
        let rows = weights.chunks(self.terms().max(1)).take(self.over[0]);
        let moved = |(output, row): (usize, &[f32])| {
            let sum: f64 = row.iter().map(|&weight| f64::from(weight)).sum();
            let bias = bias.get(output).map_or(0.0, |&bias| f64::from(bias));
            (bias + zero_y - zero_x * sum) as f32
        };
        rows.enumerate().map(moved).collect()
    }

    pub(crate) fn compute(&self, inputs: &[Spec], mut job: Job<'_>) -> Outputs {
        let elements: Vec<Element> = inputs.iter().map(|spec| spec.element).collect();
        let [weights, bias] = self.values_of(&Roles::of(&elements)?, |k| job.singles(k));
        let input = job.singles(0);
        let each = (PRODUCTS / self.terms().max(1)).clamp(1, TILE);
        for from in job.range.clone().step_by(each) {
            if job.stopped() {
                return None;
            }
            let some = from..job.range.end.min(from + each);
            let made: Vec<f32> = some.map(|at| self.number(&input, &weights, &bias, at)).collect();
            job.push(&made);
        }
        Some(job.output)
    }

    /// Output number `at`.
    fn number(&self, input: &[f32], weights: &[f32], bias: &[f32], at: usize) -> f32 {
        let [outputs, down, right] = self.over;
        let (pixel, output) = (at / outputs, at % outputs);
        let place = [pixel / right / down, pixel / right % down, pixel % right];
        let filter = &weights[output * self.terms()..][..self.terms()];
        let bias = bias.get(output).map_or(0.0, |&bias| f64::from(bias));
        let value = self.sum(input, filter, place) * f64::from(self.scales[0]) + bias;
        let value = if self.relu { value.max(0.0) } else { value };
        let steps = (value / f64::from(self.scales[1])).round_ties_even();
        (steps + f64::from(self.zeros[1])).clamp(-127.0, 127.0) as f32
    }

    /// Sum of weights times numbers without their zero point, over the window of an output.
    fn sum(&self, input: &[f32], filter: &[f32], [n, y, x]: [usize; 3]) -> f64 {
        let [_, channels, height, width] = self.shape;
        let [rows, columns] = self.size;
        let zero = f32::from(self.zeros[0]);
        let inside = |axis: usize, at: usize, tap: usize, len: usize| {
            let at = (at * self.stride[axis] + tap).checked_sub(self.padding[axis]);
            at.filter(|at| *at < len)
        };
        let mut sum = 0.0;
        for tap in 0..rows * columns {
            let y = inside(0, y, tap / columns, height);
            let Some((y, x)) = y.zip(inside(1, x, tap % columns, width)) else { continue };
            let pixel = &input[((n * height + y) * width + x) * channels..][..channels];
            let weights = filter.iter().skip(tap).step_by(rows * columns);
            let products = pixel.iter().zip(weights);
            sum += products.map(|(x, w)| f64::from(x - zero) * f64::from(*w)).sum::<f64>();
        }
        sum
    }
}

/// Inputs behind the images and the weights.
struct Roles {
    bias: Option<usize>,
    factors: Option<usize>,
    /// Weights and bias are integers.
    of_integers: bool,
}

impl Roles {
    /// `None` if inputs of these types are not those of such a convolution.
    fn of(elements: &[Element]) -> Option<Self> {
        use Element::{F32, I8, I32};
        let (bias, factors) = match elements {
            [I8, F32 | I32] => (None, None),
            [I8, F32, F32] | [I8, I32, I32] => (Some(2), None),
            [I8, I32, F32] => (None, Some(2)),
            [I8, I32, I32, F32] => (Some(2), Some(3)),
            _ => return None,
        };
        Some(Self { bias, factors, of_integers: elements[1] == I32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::op::{Kind, TensorOp};

    /// Two channels of 2 x 3, windows of 2 x 2 around them, every second row: 2 x 4 pixels of one
    /// output.
    fn eight() -> Eight {
        Eight {
            shape: [1, 2, 2, 3],
            over: [1, 2, 4],
            size: [2, 2],
            stride: [2, 1],
            padding: [1, 1],
            scales: [0.5, 0.25],
            zeros: [-3, 5],
            relu: false,
        }
    }

    fn op(eight: Eight) -> TensorOp {
        let spec = |element, dims: &[usize]| Spec { element, dims: dims.to_vec() };
        let [n, c, height, width] = eight.shape;
        let [outputs, down, right] = eight.over;
        let inputs = vec![
            spec(Element::I8, &[n, height, width, c]),
            spec(Element::F32, &[outputs, c, 2, 2]),
            spec(Element::F32, &[outputs]),
        ];
        let output = spec(Element::I8, &[n, down, right, outputs]);
        TensorOp { kind: Kind::Eight(eight), inputs, output }
    }

    /// Numbers less their zero point are 1 to 6 in the first channel, and 10 in the second.
    const INPUT: [i8; 12] = [-2, 7, -1, 7, 0, 7, 1, 7, 2, 7, 3, 7];
    /// The last tap of the first channel once, and a tenth of the first tap of the second.
    const WEIGHTS: [f32; 8] = [0., 0., 0., 1., 0.1, 0., 0., 0.];

    fn compute(eight: Eight, range: std::ops::Range<usize>) -> Array {
        let [input, weights] = [Array::I8(INPUT.to_vec()), Array::F32(WEIGHTS.to_vec())];
        let bias = Array::F32(vec![0.25]);
        let values = [input.values(), weights.values(), bias.values()];
        op(eight).compute(&values, range, &|| false).unwrap().unwrap()
    }

    #[test]
    fn any_range_is_the_rounded_sum_with_zero_points_on_both_sides() {
        // Of the first row of windows the last taps see the upper row, of the second one the first
        // taps see the lower row.
        let steps = [2, 4, 6, 0, 0, 2, 2, 2].map(|steps: i8| steps + 1 + 5);
        assert_eq!(compute(eight(), 0..8), Array::I8(steps.to_vec()));
        assert_eq!(compute(eight(), 3..6), Array::I8(steps[3..6].to_vec()));
        let [input, weights] = [Array::I8(INPUT.to_vec()), Array::F32(WEIGHTS.to_vec())];
        let bias = Array::F32(vec![0.25]);
        let values = [input.values(), weights.values(), bias.values()];
        assert!(op(eight()).compute(&values, 0..8, &|| true).unwrap().is_none());
    }

    #[test]
    fn numbers_stop_at_127_and_relu_at_the_zero_point() {
        let fine = Eight { scales: [0.5, 1.0 / 64.0], ..eight() };
        let Array::I8(numbers) = compute(fine, 0..8) else { panic!("no integers") };
        assert_eq!(numbers[..4], [53, 85, 117, 21]);
        let finer = Eight { scales: [8.0, 1.0 / 64.0], zeros: [-3, -127], ..eight() };
        let Array::I8(numbers) = compute(finer, 0..8) else { panic!("no integers") };
        assert_eq!(numbers[..4], [127, 127, 127, -111]);
        let negative = Eight { zeros: [12, 5], ..eight() };
        let Array::I8(numbers) = compute(negative, 0..4) else { panic!("no integers") };
        assert_eq!(numbers, [-22, -20, -18, 6]);
        let relu = Eight { relu: true, ..negative };
        assert_eq!(compute(relu, 0..4), Array::I8(vec![5, 5, 5, 6]));
    }

    /// A convolution without zero points gives the same values with the moved bias.
    #[test]
    fn zero_points_are_in_the_moved_bias() {
        let whole = Eight { padding: [0, 0], over: [1, 1, 2], ..eight() };
        let bias = whole.moved_bias(&WEIGHTS, &[0.25]);
        assert!(bias.len() == 1 && (bias[0] - 3.15).abs() < 1e-6, "{bias:?}");
        let plain = Eight { zeros: [0, 0], ..whole };
        let [input, weights] = [Array::I8(INPUT.to_vec()), Array::F32(WEIGHTS.to_vec())];
        let made = |eight: Eight, bias: f32| {
            let bias = Array::F32(vec![bias]);
            let values = [input.values(), weights.values(), bias.values()];
            op(eight).compute(&values, 0..2, &|| false).unwrap().unwrap()
        };
        assert_eq!(made(whole, 0.25), made(plain, bias[0]));
        assert_eq!(whole.moved_bias(&WEIGHTS, &[]), whole.moved_bias(&WEIGHTS, &[0.0]));
    }

    /// Weights of 10 and 1 tenths, and a bias of 5 tenths of the input's steps.
    #[test]
    fn integers_are_weights_times_factors() {
        let whole = Eight { padding: [0, 0], over: [1, 1, 2], ..eight() };
        let [input, weights] =
            [Array::I8(INPUT.to_vec()), Array::I32(vec![0, 0, 0, 10, 1, 0, 0, 0])];
        let (bias, factors) = (Array::I32(vec![5]), Array::F32(vec![0.1]));
        let [singles, biases] = whole.values(&[&weights, &bias, &factors]).unwrap();
        assert_eq!(singles, WEIGHTS);
        assert!(biases.len() == 1 && (biases[0] - 0.25).abs() < 1e-6, "{biases:?}");
        let mut op = op(whole);
        op.inputs[1].element = Element::I32;
        op.inputs[2].element = Element::I32;
        op.inputs.push(Spec { element: Element::F32, dims: vec![1] });
        let values = [input.values(), weights.values(), bias.values(), factors.values()];
        let made = op.compute(&values, 0..2, &|| false).unwrap().unwrap();
        assert_eq!(made, Array::I8(vec![18, 20]));
        assert!(whole.values(&[&factors, &bias]).is_none(), "singles with a bias of integers");
    }

    #[test]
    fn invalid_convolution_of_8_bits_is_refused() {
        assert_eq!(op(eight()).check(), Ok(()));
        let float = Spec { element: Element::F32, dims: vec![1, 2, 4, 1] };
        let few = TensorOp { inputs: op(eight()).inputs[..1].to_vec(), ..op(eight()) };
        let mut mixed = op(eight());
        mixed.inputs[1].element = Element::I32; // so that the last input is one of factors
        assert_eq!(mixed.check(), Ok(()));
        mixed.inputs[2].element = Element::I8;
        for op in [
            few,
            mixed,
            TensorOp { output: float, ..op(eight()) },
            op(Eight { stride: [0, 1], ..eight() }),
            op(Eight { padding: [0, 1], ..eight() }),
            op(Eight { padding: [usize::MAX, 1], ..eight() }),
            op(Eight { scales: [0.5, 0.0], ..eight() }),
            op(Eight { scales: [f32::NAN, 0.5], ..eight() }),
        ] {
            assert!(matches!(op.check(), Err(Error::Invalid(_))), "{op:?}");
        }
    }
}
