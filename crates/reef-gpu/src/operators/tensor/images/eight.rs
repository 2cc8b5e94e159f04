//! Convolutions between numbers of 8 bits, by the kernels that networks of images have for them.

use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::tensor::bound::{meet, refused};
use reef_core::{Error, Launch, Result};
use reef_op::rounding::Rounded;
use reef_op::tensor::{Eight, TensorOp};
use reef_op::{
    Conv2d, Format, Op, Operands, Operators, Quantization, Scratch, Storage, TensorOperands,
};
use std::ops::Range;

/// Products that 32 bits can count: numbers go down to -128, and weights up to 127.
const MAX_TERMS: usize = i32::MAX as usize / (128 * 127);

/// Returns whether there are kernels for `op`, which was checked.
pub(in crate::operators::tensor) fn fits<V: Vendor>(gpu: &Gpu<V>, op: &Eight) -> bool {
    // Outside of an image kernels see the number 0, which is also the bound of their ReLU.
    let pads = op.padding == [0; 2] || op.zeros[0] == 0;
    let bounds = !op.relu || op.zeros[1] == 0;
    let has = |conv: Conv2d| {
        let Quantization { input, output, .. } = gpu.quantization(&Op::Conv2d(conv), Format::Int8);
        input && output
    };
    pads && bounds && op.terms() <= MAX_TERMS && Conv2d::of_eight(op).is_some_and(has)
}

pub(in crate::operators::tensor) fn scratch<V: Vendor>(gpu: &Gpu<V>, op: &Eight) -> Scratch {
    let of = |conv: Conv2d| gpu.scratch(&Op::Conv2d(conv), Rounded::default());
    Conv2d::of_eight(op).map(of).unwrap_or_default()
}

/// The launches that compute `op`, which is this convolution. The second operand has its packed
/// weights and bias.
///
/// # Errors
///
/// `Invalid` if the operation is not sound or an operand does not hold its tensor; `Unsupported` if
/// there are no kernels for it, or its weights are not packed.
pub(in crate::operators::tensor) fn build<V: Vendor>(
    gpu: &Gpu<V>,
    op: &TensorOp,
    eight: &Eight,
    operands: &TensorOperands<'_, Gpu<V>>,
) -> Result<Vec<Launch<Gpu<V>>>> {
    op.check()?;
    let Some(conv) = Conv2d::of_eight(eight).filter(|_| fits(gpu, eight)) else {
        return Err(refused::<V>(op, format!("no kernel for {eight:?}")));
    };
    if !operands.packed {
        return Err(refused::<V>(op, "weights that are not packed"));
    }
    let (given, want) = (operands.inputs.len(), op.inputs.len());
    let inputs = &operands.inputs[..];
    let (true, [images, constants, ..]) = (given == want, inputs) else {
        return Err(Error::invalid("inputs of eight", format!("must be {want}, got {given}")));
    };
    if constants.offset > 0 {
        return Err(Error::invalid("packed input", "must begin its buffer"));
    }
    let written = addresses(&operands.output, op.output.bytes())?;
    let read =
        [addresses(images, op.inputs[0].bytes())?, addresses(constants, constants.buffer.bytes())?];
    if read.iter().any(|read| meet(read, &written)) {
        return Err(Error::invalid("output", "cannot overlap what is read"));
    }
    let operands = Operands {
        constants: Some(constants.buffer),
        scratch: operands.scratch.as_ref().map(same),
        ..Operands::new(same(images), same(&operands.output))
    };
    gpu.operator(&Op::Conv2d(conv), &operands)
}

/// Storage `of`, for another operand.
fn same<'a, V: Vendor>(of: &Storage<'a, Gpu<V>>) -> Storage<'a, Gpu<V>> {
    Storage { buffer: of.buffer, offset: of.offset }
}

fn addresses<V: Vendor>(of: &Storage<'_, Gpu<V>>, bytes: usize) -> Result<Range<u64>> {
    let start = of.buffer.range(of.offset, bytes)?;
    Ok(start..start + bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::buffer::Buffer;
    use crate::hal::fake::Fake;
    use crate::hal::options::{Options, Precision};
    use crate::operators::tensor::build;
    use reef_core::Device;
    use reef_op::tensor::{Element, Kind, Spec};

    fn gpu(precision: Precision) -> Gpu<Fake> {
        let options = Options { precision: Some(precision), ..Options::default() };
        Gpu::new(Fake::with_tensor_cores(132), options).unwrap()
    }

    /// Behind a ReLU on both sides.
    fn eight() -> Eight {
        Eight {
            shape: [1, 16, 8, 8],
            over: [16, 6, 6],
            size: [3; 2],
            stride: [1; 2],
            padding: [0; 2],
            scales: [0.5, 0.25],
            zeros: [-128, -127],
            relu: false,
        }
    }

    fn op(eight: Eight) -> TensorOp {
        let ([n, c, height, width], [outputs, down, right]) = (eight.shape, eight.over);
        let [rows, columns] = eight.size;
        let eights = |dims: [usize; 4]| Spec { element: Element::I8, dims: dims.to_vec() };
        let singles = |dims: &[usize]| Spec { element: Element::F32, dims: dims.to_vec() };
        TensorOp {
            kind: Kind::Eight(eight),
            inputs: vec![
                eights([n, height, width, c]),
                singles(&[outputs, c, rows, columns]),
                singles(&[outputs]),
            ],
            output: eights([n, down, right, outputs]),
        }
    }

    fn packed(gpu: &Gpu<Fake>, eight: &Eight) -> Buffer<Fake> {
        let conv = Op::Conv2d(Conv2d::of_eight(eight).unwrap());
        let [weights, bias] = conv.constants().map(|count| vec![0.5; count]);
        gpu.pack(&conv, &weights, &eight.moved_bias(&weights, &bias)).unwrap()
    }

    /// Kernels of the convolution, whose images lie in storages of their sizes, or in one.
    fn kernels(is_packed: bool, in_one: bool) -> Result<Vec<String>> {
        let (gpu, op) = (gpu(Precision::Fp16), op(eight()));
        let constants = packed(&gpu, &eight());
        let [input, bias, output] =
            [&op.inputs[0], &op.inputs[2], &op.output].map(|spec| gpu.alloc(spec.bytes()).unwrap());
        let scratch = gpu.alloc(gpu.tensor_scratch(&op).bytes.max(1)).unwrap();
        let storage = |buffer| Storage { buffer, offset: 0 };
        let operands = TensorOperands {
            inputs: vec![storage(&input), storage(&constants), storage(&bias)],
            output: storage(if in_one { &input } else { &output }),
            packed: is_packed,
            scratch: Some(storage(&scratch)),
        };
        let launches = build::build(&gpu, &op, &operands)?;
        Ok(launches.iter().map(|launch| launch.kernel().name().to_owned()).collect())
    }

    #[test]
    fn kernels_of_images_convolve_numbers_of_tensors() {
        assert!(gpu(Precision::Fp16).has_joined(&op(eight())));
        assert_eq!(kernels(true, false).unwrap(), ["quantized_int8_int8_32x32"]);
        let said = kernels(false, false).unwrap_err();
        let Error::Unsupported { what, .. } = said else { panic!("{said}") };
        assert_eq!(what, "eight: weights that are not packed");
        assert!(matches!(kernels(true, true), Err(Error::Invalid(_))), "it writes what it reads");
    }

    /// The bias is 0.5, the sum of all weights 72.
    #[test]
    fn packed_biases_have_the_zero_points_in_steps_of_the_output() {
        let gpu = gpu(Precision::Fp16);
        let mut bias = [0; 4];
        packed(&gpu, &eight()).read(16 * 256, &mut bias).unwrap();
        let moved = 0.5 - 127.0 * 0.25 + 128.0 * 0.5 * 72.0;
        assert_eq!(f32::from_le_bytes(bias), moved / 0.25);
    }

    #[test]
    fn convolutions_without_kernels_are_not_joined() {
        let takes = |gpu: &Gpu<Fake>, eight: Eight| gpu.has_joined(&op(eight));
        assert!(!takes(&gpu(Precision::Tf32), eight()) && !takes(&gpu(Precision::Fp32), eight()));
        let padded = Eight { shape: [1, 16, 6, 6], padding: [1; 2], ..eight() };
        let bounded = Eight { relu: true, ..eight() };
        let narrow = Eight { shape: [1, 24, 8, 8], ..eight() };
        let odd = Eight { over: [6, 6, 6], ..eight() };
        // 133,056 products of -128 and 127 are more than 32 bits hold.
        let long = Eight { shape: [1, 1344, 9, 11], over: [16, 1, 1], size: [9, 11], ..eight() };
        let refused = [padded, bounded, narrow, odd, long];
        let without = |eight: Eight| Eight { zeros: [0, 0], ..eight };
        let gpu = gpu(Precision::Fp16);
        assert_eq!(refused.map(|eight| takes(&gpu, eight)), [false; 5]);
        let zero = [true, true, false, false, false];
        assert_eq!(refused.map(|eight| takes(&gpu, without(eight))), zero);
    }
}
