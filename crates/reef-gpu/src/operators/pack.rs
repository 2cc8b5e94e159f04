//! Weights in the order in which kernels read them, then the biases.
//!
//! ```text
//! convolution by tiles   for each output whole slabs: row, column, channel; then zeros
//!   of 8 bits            behind the biases a factor for each output
//! any other convolution  as given, 32-bit
//! linear                 a row for each output, of a multiple of 4
//! scale and shift        as given, 32-bit
//! ```

use super::element::Element;
use super::tiles::slabs::{ImplicitGemm, SLAB};
use reef_core::{Error, Result};
use reef_op::{Conv2d, Op, Quantized, Tensor};

/// Offset of the biases, and the number of all bytes, of an op that was checked.
///
/// # Errors
///
/// `Invalid` if groups don't divide channels.
pub(super) fn layout(op: &Op, element: Element) -> Result<[usize; 2]> {
    let [weights, biases] = op.constants();
    let bytes = match op {
        Op::Pool2d(_) | Op::Activate(_) | Op::Multiply(_) => return Ok([0; 2]),
        Op::ScaleShift(_) => weights * size_of::<f32>(),
        Op::Linear(op) => op.output.channels * row(op.input.channels) * element.bytes(),
        Op::Conv2d(op) => match tiles(op, element)? {
            Some(gemm) => op.output.channels * gemm.slabs * SLAB,
            None => weights * size_of::<f32>(),
        },
    };
    let start = bytes.next_multiple_of(16);
    let vectors = if op.is_quantized() { 2 } else { 1 };
    Ok([start, start + vectors * biases.next_multiple_of(4) * size_of::<f32>()])
}

/// The packed constants.
///
/// # Errors
///
/// `Invalid` if the lengths are not [`Op::constants`].
pub(super) fn pack(op: &Op, element: Element, weights: &[f32], bias: &[f32]) -> Result<Vec<u8>> {
    op.check()?;
    let [start, bytes] = layout(op, element)?;
    let (have, want) = ([weights.len(), bias.len()], op.constants());
    if have != want {
        let ([weights, biases], [want_weights, want_biases]) = (have, want);
        return Err(Error::invalid(
            "constants",
            format!(
                "must be {want_weights} weights and {want_biases} biases, got {weights} and {biases}"
            ),
        ));
    }
    let mut packed = vec![0; bytes];
    let (to, biases) = packed.split_at_mut(start);
    match op {
        Op::Conv2d(conv) if op.is_quantized() => {
            let (weights, [bias, factors]) = quantized(conv, weights, bias);
            let (to_bias, to_factors) = biases.split_at_mut(biases.len() / 2);
            write_all(Element::F32, to_bias, &bias);
            write_all(Element::F32, to_factors, &factors);
            let gemm = tiles(conv, element)?
                .ok_or_else(|| Error::invalid("convolution", format!("{conv:?} has no tiles")))?;
            write_slabs(conv, &gemm, element.in_tensor(&conv.input), to, &weights);
            return Ok(packed);
        }
        _ => write_all(Element::F32, biases, bias),
    }
    match op {
        Op::Conv2d(op) => match tiles(op, element)? {
            Some(gemm) => write_slabs(op, &gemm, element, to, weights),
            None => write_all(Element::F32, to, weights),
        },
        Op::Linear(op) => {
            let rows = to.chunks_mut(row(op.input.channels) * element.bytes());
            let rows = rows.zip(weights.chunks(op.input.channels));
            rows.for_each(|(to, row)| write_all(linear(element), to, row));
        }
        _ => write_all(Element::F32, to, weights),
    }
    Ok(packed)
}

/// Weights as they are multiplied, and vectors with a value for each output: its bias, and the
/// factor of its sums.
///
/// A sum of numbers times the scales of both sides is the sum of values. Outputs are counted in
/// their own scale: bounds are as well, and a residual has that scale already.
fn quantized(op: &Conv2d, weights: &[f32], bias: &[f32]) -> (Vec<f32>, [Vec<f32>; 2]) {
    let scale = |tensor: &Tensor| tensor.layout.quantized().map_or(1.0, Quantized::scale);
    let (input, output) = (scale(&op.input), scale(&op.output));
    let rows = weights.chunks(weights.len().checked_div(bias.len()).unwrap_or(0).max(1));
    let scales: Vec<f32> = match op.input.layout.quantized() {
        None => vec![1.0; bias.len()],
        Some(numbers) => rows.clone().map(|row| numbers.format().scale_of_all(row)).collect(),
    };
    let divided = rows.zip(&scales).flat_map(|(row, scale)| row.iter().map(move |w| w / scale));
    let factors = scales.iter().map(|scale| scale * input / output);
    (divided.collect(), [bias.iter().map(|b| b / output).collect(), factors.collect()])
}

/// Element of the weights of a linear layer, whose kernel multiplies without tensor cores.
fn linear(element: Element) -> Element {
    if element == Element::Tf32 { Element::F32 } else { element }
}

fn tiles(op: &Conv2d, element: Element) -> Result<Option<ImplicitGemm>> {
    let groups = op.groups;
    let divides = |channels: usize| groups > 0 && channels.is_multiple_of(groups);
    if !divides(op.input.channels) || !divides(op.output.channels) {
        return Err(Error::invalid(
            "groups",
            format!("must divide the channels, got {groups} of {op:?}"),
        ));
    }
    Ok(ImplicitGemm::new(op, element))
}

/// Inputs of a linear layer in the kernels' count.
fn row(inputs: usize) -> usize {
    inputs.next_multiple_of(4)
}

fn write_all(element: Element, to: &mut [u8], values: &[f32]) {
    let places = to.chunks_exact_mut(element.bytes());
    places.zip(values).for_each(|(to, &value)| element.write(to, value));
}

fn write_slabs(op: &Conv2d, gemm: &ImplicitGemm, element: Element, to: &mut [u8], weights: &[f32]) {
    let (channels, taps) = (op.input.channels, op.window.size.iter().product::<usize>());
    let outputs = to.chunks_exact_mut(gemm.slabs * SLAB).zip(weights.chunks_exact(channels * taps));
    for (to, weights) in outputs {
        for (i, &weight) in weights.iter().enumerate() {
            let at = (i % taps * gemm.channels + i / taps) * element.bytes();
            element.write(&mut to[at..at + element.bytes()], weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::{Layout, Window};

    #[test]
    fn channels_of_a_tap_lie_side_by_side() {
        let tensor = |layout, channels| Tensor::new(layout, [1, channels, 1, 2]);
        let (input, output) = (tensor(Layout::Nchw, 3), tensor(Layout::Native, 2));
        let window = Window { size: [1, 3], stride: [1, 1], padding: [0, 1] };
        let op = Op::Conv2d(Conv2d::new(input, output, window));
        let weights: Vec<f32> = (1_u8..=18).map(f32::from).collect();
        let packed = pack(&op, Element::F32, &weights, &[0.5, 0.25]).unwrap();
        assert_eq!(packed.len(), 2 * SLAB + 16);
        let floats: Vec<f32> =
            packed.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)).collect();
        assert_eq!(floats[..13], [1., 4., 7., 0., 2., 5., 8., 0., 3., 6., 9., 0., 0.]);
        assert_eq!(floats[64..67], [10., 13., 16.]);
        assert_eq!(floats[128..], [0.5, 0.25, 0., 0.]);
    }
}
