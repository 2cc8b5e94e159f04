//! Every operation as plain loops over dense arrays: slow, obvious, and right.
//!
//! Kernels are checked against it. All storages are row-major `[batch][of][height][width]`,
//! whatever [`Layout`] a tensor claims; sums are in `f64`. Of a tensor with numbers of 8 bits they
//! hold the values of these numbers.

use crate::errors::error::{Error, Result};
use crate::model::image_model::ImageModel;
use crate::model::rounded_weights::nearest;
use crate::model::tensor::Source;
use reef_op::{
    Activate, Conv2d, Function, Layout, Linear, Multiply, Op, Pool2d, PoolKind, ScaleShift, Tensor,
    Window,
};
use std::borrow::Cow;
use std::ops::Range;

/// Operands of one operation: whole storages, and its folded constants.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The storage of [`Op::input`].
    pub input: &'a [f32],
    /// The storage of [`Op::second`], if there is one.
    pub residual: Option<&'a [f32]>,
    /// As [`Op::constants`] orders them.
    pub weights: &'a [f32],
    /// One value per output channel.
    pub bias: &'a [f32],
}

/// Computes `op` into the storage of its output; other channels of that storage stay.
///
/// An input with numbers of 8 bits has those values already, and the weights of its convolution are
/// rounded to such numbers. Values of an output with them are rounded at the end.
///
/// # Panics
///
/// If a slice is shorter than its tensor, a factor is missing, or the shapes contradict each other.
pub fn apply(op: &Op, inputs: Inputs<'_>, output: &mut [f32]) {
    let weights = multiplied(op, inputs.weights);
    let inputs = Inputs { weights: &weights, ..inputs };
    match op {
        Op::Conv2d(op) => conv2d(op, inputs, output),
        Op::Pool2d(op) => pool2d(op, inputs.input, output),
        Op::ScaleShift(op) => scale_shift(op, inputs, output),
        Op::Linear(op) => linear(op, inputs, output),
        Op::Activate(op) => function(op, inputs.input, output),
        Op::Multiply(op) => multiply(op, inputs, output),
    }
    round(op.output(), output);
}

/// Weights that the input is multiplied by.
fn multiplied<'a>(op: &Op, weights: &'a [f32]) -> Cow<'a, [f32]> {
    match (op, op.input().layout) {
        (Op::Conv2d(op), Layout::Quantized(numbers)) => {
            nearest(weights, op.output.channels, numbers.format()).into()
        }
        _ => weights.into(),
    }
}

/// Rounds the values of a tensor with numbers of 8 bits.
fn round(tensor: &Tensor, storage: &mut [f32]) {
    let Some(numbers) = tensor.layout.quantized() else { return };
    for (image, channel) in planes(tensor) {
        let values = storage[plane(tensor, image, channel)].iter_mut();
        values.for_each(|value| *value = numbers.nearest(*value));
    }
}

/// Runs a whole network and returns its logits.
///
/// # Errors
///
/// `Length` if `input` is not as long as the network's input; the errors of `source`.
pub fn execute(model: &ImageModel, source: &impl Source, input: &[f32]) -> Result<Vec<f32>> {
    let mut storages = execute_all(model, source, input)?;
    let last = &model.graph().steps[model.layers().len() - 1];
    Ok(storages.swap_remove(last.writes))
}

/// Runs a whole network and returns every storage of it.
///
/// # Errors
///
/// Returns the errors of [`execute`].
pub fn execute_all(
    model: &ImageModel,
    source: &impl Source,
    input: &[f32],
) -> Result<Vec<Vec<f32>>> {
    let graph = model.graph();
    let (given, want) = (input.len(), model.input().elements());
    if given != want {
        return Err(Error::Length { what: "input".into(), given, want });
    }
    let mut storages: Vec<_> = graph.storages.iter().map(|s| vec![0.0; s.elements]).collect();
    storages[graph.steps[0].reads[0]].copy_from_slice(input);
    for (step, layer) in graph.steps.iter().zip(model.layers()) {
        let (weights, bias) = layer.fold(source)?;
        let mut output = std::mem::take(&mut storages[step.writes]);
        let inputs = Inputs {
            input: &storages[step.reads[0]],
            residual: step.reads.get(1).map(|&residual| storages[residual].as_slice()),
            weights: &weights,
            bias: &bias,
        };
        apply(&layer.op, inputs, &mut output);
        storages[step.writes] = output;
    }
    Ok(storages)
}

/// Range of one channel of one image in the storage.
fn plane(tensor: &Tensor, image: usize, channel: usize) -> Range<usize> {
    let points = tensor.height * tensor.width;
    let begin = (image * tensor.of + tensor.first + channel) * points;
    begin..begin + points
}

fn planes(tensor: &Tensor) -> impl Iterator<Item = (usize, usize)> + use<> {
    let channels = tensor.channels;
    (0..tensor.batch).flat_map(move |image| (0..channels).map(move |channel| (image, channel)))
}

fn activate(value: f64, relu: bool, function: Option<Function>) -> f32 {
    let value = if relu && value < 0.0 { 0.0 } else { value }; // which keeps what is not a number
    function.map_or(value, |function| function.of(value)) as f32
}

fn conv2d(op: &Conv2d, inputs: Inputs<'_>, output: &mut [f32]) {
    let per_group = op.input.channels / op.groups;
    let outputs_per_group = op.output.channels / op.groups;
    let [rows, columns] = op.window.size;
    for (image, channel) in planes(&op.output) {
        let mut sums = vec![f64::from(inputs.bias[channel]); op.output.height * op.output.width];
        for i in 0..per_group {
            let from = channel / outputs_per_group * per_group + i;
            let weights = (channel * per_group + i) * rows * columns;
            let weights = &inputs.weights[weights..weights + rows * columns];
            add_plane(op, weights, &inputs.input[plane(&op.input, image, from)], &mut sums);
        }
        let at = plane(&op.output, image, channel);
        if let Some(residual) = inputs.residual {
            let residual = &residual[at.clone()];
            sums.iter_mut().zip(residual).for_each(|(sum, &r)| *sum += f64::from(r));
        }
        let done = output[at].iter_mut().zip(&sums);
        done.for_each(|(value, &sum)| *value = activate(sum, op.relu, op.function));
    }
}

/// Adds to `sums` what one input channel gives to one output channel.
fn add_plane(op: &Conv2d, weights: &[f32], input: &[f32], sums: &mut [f64]) {
    let (width, output_width) = (op.input.width, op.output.width);
    for (tap, &weight) in weights.iter().enumerate() {
        let [row, column] = [tap / op.window.size[1], tap % op.window.size[1]];
        let columns = inside(&op.window, 1, column, output_width, width);
        for y in inside(&op.window, 0, row, op.output.height, op.input.height) {
            let from = (y * op.window.stride[0] + row - op.window.padding[0]) * width;
            for x in columns.clone() {
                let at = x * op.window.stride[1] + column - op.window.padding[1];
                sums[y * output_width + x] += f64::from(weight) * f64::from(input[from + at]);
            }
        }
    }
}

/// Outputs along `axis` for which tap number `tap` of the window lies inside the input.
fn inside(window: &Window, axis: usize, tap: usize, outputs: usize, inputs: usize) -> Range<usize> {
    let (stride, padding) = (window.stride[axis], window.padding[axis]);
    let first = padding.saturating_sub(tap).div_ceil(stride);
    let end = (inputs + padding).saturating_sub(tap).div_ceil(stride);
    first..end.clamp(first, outputs.max(first))
}

fn pool2d(op: &Pool2d, input: &[f32], output: &mut [f32]) {
    for (image, channel) in planes(&op.output) {
        let from = &input[plane(&op.input, image, channel)];
        let to = &mut output[plane(&op.output, image, channel)];
        for (i, value) in to.iter_mut().enumerate() {
            *value = pooled(op, from, [i / op.output.width, i % op.output.width]);
        }
    }
}

fn pooled(op: &Pool2d, from: &[f32], [y, x]: [usize; 2]) -> f32 {
    let span = |axis: usize, i: usize, limit: usize| {
        let begin = i * op.window.stride[axis];
        let end = (begin + op.window.size[axis]).saturating_sub(op.window.padding[axis]);
        begin.saturating_sub(op.window.padding[axis])..end.min(limit)
    };
    let columns = span(1, x, op.input.width);
    let rows = span(0, y, op.input.height).map(|row| row * op.input.width);
    let values = rows.flat_map(|row| from[row + columns.start..row + columns.end].iter());
    match op.kind {
        PoolKind::Max => values.fold(f32::NEG_INFINITY, |max, &value| larger(max, value)),
        PoolKind::Average => {
            let points = op.window.size.iter().product::<usize>();
            (values.map(|&value| f64::from(value)).sum::<f64>() / points as f64) as f32
        }
    }
}

/// The larger of both, or what is not a number.
fn larger(a: f32, b: f32) -> f32 {
    if b > a || b.is_nan() { b } else { a }
}

fn scale_shift(op: &ScaleShift, inputs: Inputs<'_>, output: &mut [f32]) {
    for (image, channel) in planes(&op.output) {
        let from = &inputs.input[plane(&op.input, image, channel)];
        let to = &mut output[plane(&op.output, image, channel)];
        let (scale, shift) = (f64::from(inputs.weights[channel]), f64::from(inputs.bias[channel]));
        let values = to.iter_mut().zip(from);
        values.for_each(|(to, &v)| *to = activate(f64::from(v) * scale + shift, op.relu, None));
    }
}

fn linear(op: &Linear, inputs: Inputs<'_>, output: &mut [f32]) {
    let width = op.input.channels;
    for (image, channel) in planes(&op.output) {
        let begin = plane(&op.input, image, 0).start;
        let from = &inputs.input[begin..begin + width];
        let weights = &inputs.weights[channel * width..][..width];
        let products = from.iter().zip(weights).map(|(&v, &w)| f64::from(v) * f64::from(w));
        let sum = products.sum::<f64>() + f64::from(inputs.bias[channel]);
        output[plane(&op.output, image, channel).start] = activate(sum, op.relu, op.function);
    }
}

fn function(op: &Activate, input: &[f32], output: &mut [f32]) {
    for (image, channel) in planes(&op.output) {
        let from = &input[plane(&op.input, image, channel)];
        let to = &mut output[plane(&op.output, image, channel)];
        to.iter_mut().zip(from).for_each(|(to, &x)| *to = op.function.of(x.into()) as f32);
    }
}

fn multiply(op: &Multiply, inputs: Inputs<'_>, output: &mut [f32]) {
    let factors = inputs.residual.expect("a product has a factor, which Op::second says");
    for (image, channel) in planes(&op.output) {
        let from = &inputs.input[plane(&op.input, image, channel)];
        let factors = &factors[plane(&op.factor, image, channel)];
        let to = &mut output[plane(&op.output, image, channel)];
        let pairs = from.iter().zip(factors.iter().cycle()); // one factor, or as many as values
        to.iter_mut().zip(pairs).for_each(|(to, (x, factor))| *to = x * factor);
    }
}
