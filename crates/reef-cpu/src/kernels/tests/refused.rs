//! Operations that are refused, and their errors.

use super::ops::{activate, conv, multiply, native, pool, window};
use super::reference::Random;
use super::table::table;
use crate::kernels::blocks::operand_layout::OperandMemory;
use crate::kernels::images::build::build;
use crate::kernels::images::pack::pack;
use crate::memory::buffer::Buffer;
use reef_core::Error;
use reef_op::{
    Bounds, Conv2d, Format, Function, Layout, Linear, Op, Pool2d, PoolKind, Quantized, ScaleShift,
    Tensor,
};

fn refusal(op: Op, bytes: usize) -> Error {
    let place = || OperandMemory { buffer: Buffer::zeroed(bytes).unwrap(), offset: 0 };
    let constants = Buffer::zeroed(1 << 20).unwrap();
    build(&op, place(), None, place(), Some(constants), 1).unwrap_err()
}

#[test]
fn a_storage_that_is_too_small_is_invalid() {
    for op in table() {
        if op.second().is_none() {
            assert!(matches!(refusal(op, 8), Error::Invalid(_)), "{op:?}");
        }
    }
}

#[test]
fn shapes_that_contradict_each_other_are_invalid() {
    let good = conv(native([1, 8, 6, 6]), 8, window([3, 3], [1, 1], [1, 1]));
    let small = native([1, 8, 5, 6]);
    let other = native([1, 9, 6, 6]);
    let huge = window([9, 9], [1, 1], [1, 1]);
    let still = window([3, 3], [0, 1], [1, 1]);
    let image = good.input;
    for op in [
        Op::Conv2d(Conv2d { output: small, ..good }),
        Op::Conv2d(Conv2d { groups: 3, ..good }),
        Op::Conv2d(Conv2d { groups: 0, ..good }),
        Op::Conv2d(Conv2d { window: huge, ..good }),
        Op::Conv2d(Conv2d { window: still, ..good }),
        Op::Conv2d(Conv2d { residual: true, ..good }),
        Op::Conv2d(Conv2d { input: image.channels(4, 8, 9), ..good }),
        Op::Pool2d(Pool2d {
            kind: PoolKind::Max,
            input: image,
            output: other,
            window: good.window,
        }),
        Op::ScaleShift(ScaleShift { input: image, output: other, relu: false }),
        Op::Linear(Linear { input: image, output: image, relu: false, function: None }),
        activate(image, other, Function::HardSwish),
        multiply(image, image, other),
        multiply(image, image, image), // whose factor is missing
    ] {
        assert!(matches!(refusal(op, 1 << 16), Error::Invalid(_)), "{op:?}");
    }
}

/// Taken as floats they would give numbers unlike any other device's.
#[test]
fn numbers_of_8_bits_are_unsupported() {
    let eight = Quantized::new(Format::Int8, 0.5).map(Layout::Quantized).unwrap();
    let good = conv(native([1, 8, 6, 6]), 8, window([3, 3], [1, 1], [1, 1]));
    let quantized = Tensor { layout: eight, ..good.input };
    let kind = PoolKind::Max;
    for op in [
        Op::Conv2d(Conv2d { input: quantized, ..good }),
        Op::Conv2d(Conv2d { output: quantized, ..good }),
        Op::Pool2d(Pool2d { kind, input: quantized, output: quantized, window: good.window }),
        Op::Linear(Linear { input: quantized, output: good.output, relu: false, function: None }),
    ] {
        assert!(matches!(refusal(op, 1 << 16), Error::Unsupported { .. }), "{op:?}");
        let [weights, bias] = op.constants().map(|count| vec![0.0; count]);
        assert!(matches!(pack(&op, &weights, &bias), Err(Error::Unsupported { .. })), "{op:?}");
    }
}

#[test]
fn factors_that_fit_no_image_are_invalid() {
    let image = native([2, 8, 6, 6]);
    let place = || OperandMemory { buffer: Buffer::zeroed(1 << 16).unwrap(), offset: 0 };
    for shape in [[1, 8, 1, 1], [2, 7, 1, 1], [2, 1, 6, 6], [2, 8, 6, 1], [2, 8, 6, 5]] {
        let op = multiply(image, native(shape), image);
        let error = build(&op, place(), Some(place()), place(), None, 1).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{shape:?}: {error}");
    }
    let small = OperandMemory { buffer: Buffer::zeroed(8).unwrap(), offset: 0 };
    let op = multiply(image, native([2, 8, 1, 1]), image);
    let error = build(&op, place(), Some(small), place(), None, 1).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
}

#[test]
fn planar_tensors_without_a_kernel_are_unsupported() {
    let planar = Tensor::new(Layout::Nchw, [1, 8, 6, 6]);
    let image = native([1, 8, 6, 6]);
    let into_planes = Conv2d { output: planar, ..conv(image, 8, window([1, 1], [1, 1], [0, 0])) };
    for op in [
        Op::Conv2d(into_planes),
        Op::Pool2d(pool(PoolKind::Max, planar, window([1, 1], [1, 1], [0, 0]))),
        Op::ScaleShift(ScaleShift { input: planar, output: image, relu: false }),
        activate(planar, image, Function::Clamp(Bounds::RELU6)),
    ] {
        assert!(matches!(refusal(op, 1 << 16), Error::Unsupported { .. }), "{op:?}");
    }
}

#[test]
fn constants_of_a_wrong_length_are_invalid() {
    let op = Op::Conv2d(conv(native([1, 8, 6, 6]), 8, window([1, 1], [1, 1], [0, 0])));
    assert!(matches!(pack(&op, &[0.0; 63], &[0.0; 8]), Err(Error::Invalid(_))));
    assert!(matches!(pack(&op, &[0.0; 64], &[0.0; 7]), Err(Error::Invalid(_))));
    assert!(pack(&op, &[0.0; 64], &[0.0; 8]).is_ok());
}

/// In a release build, products of such sizes would wrap to small ones, and pass for what fits.
#[test]
fn sizes_whose_products_wrap_are_invalid() {
    let image = native([1, 8, 6, 6]);
    let sizes = [1 << 27, 1 << 30, 1 << 58, 1 << 61, 1 << 62, 1 << 63, usize::MAX / 2, usize::MAX];
    let wide = |of| native([1, 8, 6, 6]).channels(0, 8, of);
    let mut random = Random::new(5);
    let mut any =
        || if random.below(3) == 0 { sizes[random.below(8)] } else { 1 + random.below(9) };
    let mut tried = 0;
    for _ in 0..5000 {
        let mut tensor = || {
            let shape = native([any(), any(), any(), any()]);
            shape.channels(if any() > 8 { any() } else { 0 }, shape.channels, any().max(any()))
        };
        let (input, output) = (tensor(), tensor());
        let window = window([any(), any()], [any(), any()], [any() - 1, any() - 1]);
        let groups = any();
        for op in [
            Op::Conv2d(Conv2d { groups, ..Conv2d::new(input, output, window) }),
            Op::Pool2d(Pool2d { kind: PoolKind::Max, input, output, window }),
            Op::ScaleShift(ScaleShift { input, output: input, relu: false }),
            Op::Linear(Linear { input, output, relu: false, function: None }),
            activate(input, input, Function::Clamp(Bounds::RELU6)),
            multiply(input, output, input),
        ] {
            let place = || OperandMemory { buffer: Buffer::zeroed(1 << 12).unwrap(), offset: 0 };
            let built = build(&op, place(), Some(place()), place(), Some(place().buffer), 1);
            let fits = [op.input(), op.output()].into_iter().all(|t| {
                let sizes = [t.batch, t.of, t.height, t.width];
                let elements = sizes.iter().try_fold(1usize, |product, n| product.checked_mul(*n));
                elements.is_some_and(|elements| elements <= 1 << 10)
            });
            assert!(built.is_err() || fits, "{op:?}");
            assert!(!matches!(pack(&op, &[], &[]), Err(Error::OutOfMemory { .. })), "{op:?}");
            tried += usize::from(built.is_ok());
        }
    }
    assert!(tried > 0, "some are fine");
    for of in sizes {
        assert!(matches!(
            refusal(activate(wide(of), image, Function::Clamp(Bounds::RELU6)), 64),
            Error::Invalid(_)
        ));
    }
}
