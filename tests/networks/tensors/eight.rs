//! Convolutions between numbers of 8 bits, whose scales are powers of two, so that kernels and
//! definition compute with the same numbers.

use super::bench::Case;
use super::kinds::pick;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use reef::tensor::{Array, Eight, Element, Kind, Spec, TensorOp};
use std::sync::Arc;

/// A convolution by any window with zero points, or with zeros around the image and a ReLU.
///
/// A sum is a multiple of 2⁻¹⁰ steps of the output and a bias an odd multiple of 2⁻¹¹, so that no
/// number lies half-way between two others.
pub(super) fn eight(rng: &mut ChaCha8Rng) -> Case {
    let [images, chunks, fours] = [3, 4, 20].map(|most| rng.random_range(1..=most));
    let (channels, outputs) = (16 * chunks, 4 * fours);
    let square = pick(rng, &[(1, 1), (1, 2), (3, 1), (3, 2), (5, 1)]);
    // One in three is longer in one direction than in the other.
    let other = pick(rng, &[square, square, (1, 1)]);
    let (size, stride) = ([square.0, other.0], [square.1, other.1]);
    let over = [(); 2].map(|()| rng.random_range(1..=9));
    let is_padded: bool = rng.random();
    let padding = if is_padded { size.map(|size| size / 2) } else { [0; 2] };
    let [height, width] =
        [0, 1].map(|axis| (over[axis] - 1) * stride[axis] + size[axis] - 2 * padding[axis]);
    let zero = |rng: &mut ChaCha8Rng| pick(rng, &[-128, -127, -3, 0, 77]);
    let eight = Eight {
        shape: [images, channels, height, width],
        over: [outputs, over[0], over[1]],
        size,
        stride,
        padding,
        scales: [1.0, 8.0],
        zeros: if is_padded { [0; 2] } else { [zero(rng), zero(rng)] },
        relu: is_padded && rng.random(),
    };
    let each = eight.terms();
    let weight = |at: usize, number: i16| {
        let number = if at.is_multiple_of(each) { 127 } else { number };
        f32::from(number) / 128.0
    };
    let numbers = images * channels * height * width;
    let inputs = vec![
        Array::I8((0..numbers).map(|_| rng.random_range(-128..=127)).collect()),
        Array::F32(
            (0..outputs * each).map(|at| weight(at, rng.random_range(-127..=127))).collect(),
        ),
        Array::F32(
            (0..outputs)
                .map(|_| f32::from(2 * rng.random_range(-900..900) + 1_i16) / 256.0)
                .collect(),
        ),
    ];
    let spec = |element, dims: &[usize]| Spec { element, dims: dims.to_vec() };
    let op = TensorOp {
        kind: Kind::Eight(eight),
        inputs: vec![
            spec(Element::I8, &[images, height, width, channels]),
            spec(Element::F32, &[outputs, channels, size[0], size[1]]),
            spec(Element::F32, &[outputs]),
        ],
        output: spec(Element::I8, &[images, over[0], over[1], outputs]),
    };
    Case { op: Arc::new(op), inputs, tolerance: 0.0 }
}
