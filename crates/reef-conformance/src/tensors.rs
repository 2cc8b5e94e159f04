//! Operations of tensors by plain loops, for a device without hardware.

use reef_op::tensor::{Array, Eight, TensorOp};
use reef_op::{Conv2d, Format, Op};

/// The output of an operation that was checked, of the bytes of its inputs.
pub(crate) fn output(op: &TensorOp, inputs: &[Vec<u8>]) -> Vec<u8> {
    let arrays: Vec<Array> = inputs
        .iter()
        .zip(&op.inputs)
        .map(|(bytes, spec)| Array::from_le_bytes(spec.element, bytes))
        .collect();
    let values: Vec<_> = arrays.iter().map(Array::values).collect();
    let made = op.compute(&values, 0..op.output.elements(), &|| false);
    made.ok().flatten().expect("it was checked, and nothing stops it").to_le_bytes()
}

/// The convolution of images that kernels of 8 bits compute for an operation of tensors, if they
/// can: outside of an image they see the number 0, which is also the bound of their ReLU.
pub(crate) fn convolution(eight: &Eight) -> Option<Op> {
    let pads = eight.padding == [0; 2] || eight.zeros[0] == 0;
    let bounds = !eight.relu || eight.zeros[1] == 0;
    Conv2d::of_eight(eight).filter(|_| pads && bounds).map(Op::Conv2d)
}

/// The output of such a convolution, of the bytes of its images: `compute` makes values of planes
/// of values of planes.
pub(crate) fn convolved(
    eight: &Eight,
    numbers: &[u8],
    compute: impl FnOnce(Vec<f32>) -> Vec<f32>,
) -> Vec<u8> {
    let ([_, channels, height, width], [outputs, down, right]) = (eight.shape, eight.over);
    let value = |at: usize| f32::from(numbers[at] as i8) * eight.scales[0];
    let planes = (0..numbers.len()).map(|at| value(place(at, channels, height * width)));
    let made = compute(planes.collect());
    let mut bytes = vec![0; made.len()];
    for (at, value) in made.iter().enumerate() {
        let number = Format::Int8.bits_of(value / eight.scales[1]);
        bytes[place(at, outputs, down * right)] = number;
    }
    bytes
}

/// Place of an element with channels last, of one that lies in planes of `points` points.
fn place(at: usize, channels: usize, points: usize) -> usize {
    let (image, inside) = (at / (channels * points), at % (channels * points));
    image * channels * points + inside % points * channels + inside / points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_planes_lie_channels_last() {
        // Two images of two channels and three points.
        let places: Vec<_> = (0..12).map(|at| place(at, 2, 3)).collect();
        assert_eq!(places, [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
        let eight = Eight {
            shape: [2, 2, 1, 3],
            over: [2, 1, 3],
            size: [1; 2],
            stride: [1; 2],
            padding: [0; 2],
            scales: [0.5, 0.25],
            zeros: [-128, 3],
            relu: false,
        };
        assert!(convolution(&eight).is_some());
        assert!(convolution(&Eight { relu: true, ..eight }).is_none());
        assert!(convolution(&Eight { padding: [1, 1], ..eight }).is_none());
        let numbers: Vec<u8> = (0..12).collect();
        let twice = convolved(&eight, &numbers, |values| {
            assert_eq!(values[..6], [0.0, 1.0, 2.0, 0.5, 1.5, 2.5]);
            values
        });
        assert_eq!(twice, (0..12).map(|number| 2 * number).collect::<Vec<u8>>());
    }
}
