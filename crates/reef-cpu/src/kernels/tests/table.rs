//! Odd shapes of every operator.

use super::ops::{FUNCTIONS, activate, conv, multiply, native, pool, widened, window};
use reef_op::{Bounds, Conv2d, Function, Layout, Linear, Op, PoolKind, ScaleShift, Tensor};

/// All of them.
pub(super) fn table() -> Vec<Op> {
    let mut ops = convolutions();
    ops.extend(grouped_convolutions());
    ops.extend(others());
    ops.extend(pointwise());
    ops
}

fn convolutions() -> Vec<Op> {
    let plain = window([1, 1], [1, 1], [0, 0]);
    let same = window([3, 3], [1, 1], [1, 1]);
    let planar = |shape| Tensor::new(Layout::Nchw, shape);
    let with_residual = |op: Conv2d| Conv2d { residual: true, relu: true, ..op };
    let into =
        |op: Conv2d, first, behind| Conv2d { output: widened(op.output, first, behind), ..op };
    let ops = [
        conv(native([1, 64, 14, 14]), 64, plain),
        conv(native([2, 5, 3, 7]), 3, plain),
        conv(native([1, 512, 7, 7]), 40, plain),
        conv(native([1, 64, 9, 9]), 128, window([1, 1], [2, 2], [0, 0])),
        conv(native([1, 48, 7, 7]), 48, same),
        conv(native([2, 17, 5, 6]), 33, same),
        conv(native([1, 32, 8, 17]), 16, window([1, 7], [1, 1], [0, 3])),
        conv(native([1, 32, 17, 8]), 80, window([7, 1], [1, 1], [3, 0])),
        conv(native([1, 9, 11, 13]), 20, window([5, 3], [2, 3], [2, 0])),
        conv(native([1, 1, 6, 6]), 1, same),
        conv(native([1, 8, 2, 2]), 8, window([3, 3], [2, 2], [2, 2])),
        conv(planar([1, 3, 32, 30]), 64, window([7, 7], [2, 2], [3, 3])),
        conv(planar([2, 3, 19, 21]), 32, window([3, 3], [2, 2], [0, 0])),
        conv(planar([1, 4, 23, 40]), 24, window([11, 11], [4, 4], [2, 2])),
        conv(planar([1, 3, 5, 4]), 7, window([7, 7], [1, 1], [3, 3])),
        conv(widened(planar([2, 2, 6, 6]), 1, 2), 7, same),
        conv(planar([2, 30, 1, 1]), 7, plain),
        with_residual(conv(native([1, 96, 10, 10]), 96, same)),
        with_residual(into(conv(native([2, 30, 5, 5]), 18, plain), 7, 3)),
        into(conv(widened(native([1, 64, 8, 8]), 32, 16), 32, same), 64, 16),
        into(conv(widened(native([1, 13, 8, 8]), 3, 1), 5, same), 2, 4),
        conv(widened(native([1, 64, 8, 8]), 0, 64), 32, plain),
        conv(native([3, 272, 1, 1]), 35, plain),
        conv(native([1, 64, 14, 14]), 96, same),
        conv(native([2, 32, 9, 13]), 40, window([3, 3], [1, 1], [0, 2])),
        with_residual(into(conv(widened(native([1, 272, 15, 11]), 5, 2), 33, same), 3, 1)),
    ];
    ops.into_iter().map(Op::Conv2d).collect()
}

fn grouped_convolutions() -> Vec<Op> {
    let same = window([3, 3], [1, 1], [1, 1]);
    let grouped = |op: Conv2d, groups| Conv2d { groups, relu: true, ..op };
    let then = |op: Conv2d, function| Conv2d { function: Some(function), relu: false, ..op };
    let wide = Conv2d {
        output: widened(native([1, 24, 6, 6]), 5, 2),
        residual: true,
        ..conv(widened(native([1, 24, 6, 6]), 8, 3), 24, same)
    };
    let wide_line = Conv2d {
        residual: true,
        ..conv(native([1, 50, 5, 46]), 50, window([3, 3], [1, 2], [1, 1]))
    };
    let ops = [
        grouped(conv(native([1, 32, 9, 9]), 64, same), 2),
        grouped(conv(native([2, 12, 5, 7]), 18, window([3, 1], [2, 1], [1, 0])), 3),
        grouped(conv(native([1, 6, 5, 5]), 12, same), 6),
        grouped(conv(native([2, 40, 9, 9]), 40, window([3, 3], [2, 2], [1, 1])), 40),
        grouped(conv(Tensor::new(Layout::Nchw, [1, 4, 8, 8]), 4, same), 4),
        grouped(wide, 24),
        then(
            grouped(conv(native([1, 72, 14, 14]), 72, window([5, 5], [1, 1], [2, 2])), 72),
            Function::Swish,
        ),
        then(
            grouped(conv(native([2, 100, 5, 7]), 100, window([5, 5], [2, 2], [2, 2])), 100),
            Function::HardSwish,
        ),
        grouped(wide_line, 50),
        then(conv(native([2, 40, 5, 9]), 70, window([1, 1], [1, 1], [0, 0])), Function::HardSwish),
        then(
            Conv2d {
                residual: true,
                ..conv(native([1, 16, 6, 6]), 16, window([1, 1], [1, 1], [0, 0]))
            },
            Function::Swish,
        ),
        grouped(conv(native([1, 33, 3, 2]), 33, window([7, 7], [1, 1], [3, 3])), 33),
        grouped(conv(native([1, 8, 2, 2]), 8, window([2, 3], [3, 4], [4, 5])), 8),
        then(grouped(wide, 24), Function::Sigmoid),
        then(grouped(conv(native([1, 32, 9, 9]), 64, same), 2), Function::Swish),
        grouped(wide, 4),
    ];
    ops.into_iter().map(Op::Conv2d).collect()
}

fn others() -> Vec<Op> {
    let max = |input, window| Op::Pool2d(pool(PoolKind::Max, input, window));
    let mean = |input, window| Op::Pool2d(pool(PoolKind::Average, input, window));
    let affine = |input, output, relu| Op::ScaleShift(ScaleShift { input, output, relu });
    let scale = |input, output| affine(input, output, true);
    let linear = |input, output, relu| Op::Linear(Linear { input, output, relu, function: None });
    let tensor = native([2, 19, 5, 4]);
    let logits = Tensor::new(Layout::Nchw, [2, 100, 1, 1]);
    vec![
        max(native([1, 64, 11, 11]), window([3, 3], [2, 2], [1, 1])),
        max(native([2, 7, 6, 5]), window([2, 3], [1, 2], [0, 1])),
        max(widened(native([1, 48, 8, 8]), 16, 32), window([3, 3], [1, 1], [1, 1])),
        mean(native([1, 2048, 7, 7]), window([7, 7], [1, 1], [0, 0])),
        mean(native([2, 5, 67, 64]), window([67, 64], [1, 1], [0, 0])),
        mean(native([2, 33, 5, 5]), window([3, 3], [1, 1], [1, 1])),
        mean(native([1, 32, 8, 8]), window([2, 2], [2, 2], [0, 0])),
        scale(tensor, tensor),
        affine(tensor, tensor, false),
        scale(widened(tensor, 3, 1), tensor),
        scale(native([1, 256, 14, 14]), widened(native([1, 256, 14, 14]), 16, 0)),
        linear(native([2, 300, 1, 1]), logits, true),
        linear(native([1, 512, 1, 1]), native([1, 10, 1, 1]), false),
        linear(native([1, 3, 1, 1]), native([1, 1, 1, 1]), true),
        Op::Linear(Linear {
            input: native([1, 30, 1, 1]),
            output: native([1, 12, 1, 1]),
            relu: false,
            function: Some(Function::Sigmoid),
        }),
    ]
}

fn pointwise() -> Vec<Op> {
    let (tensor, gate) = (native([2, 19, 5, 4]), native([2, 19, 1, 1]));
    let large = native([1, 256, 14, 14]);
    let logits = Tensor::new(Layout::Nchw, [2, 10, 1, 1]);
    let mut ops = vec![
        multiply(tensor, tensor, tensor),
        multiply(tensor, gate, tensor),
        multiply(widened(tensor, 3, 1), widened(tensor, 0, 7), widened(tensor, 2, 2)),
        multiply(widened(tensor, 3, 1), widened(gate, 5, 6), widened(tensor, 2, 2)),
        multiply(large, native([1, 256, 1, 1]), widened(large, 16, 0)),
        multiply(gate, widened(gate, 1, 1), gate),
        multiply(native([2, 10, 1, 1]), logits, logits),
    ];
    for function in FUNCTIONS {
        ops.push(activate(tensor, tensor, function));
        ops.push(activate(widened(tensor, 3, 1), widened(tensor, 2, 5), function));
        ops.push(activate(large, large, function));
        ops.push(activate(native([2, 10, 1, 1]), logits, function));
    }
    for (low, high) in [(-1.5, 2.25), (-1e9, 1e9), (f32::NEG_INFINITY, -3.0), (4.0, f32::INFINITY)]
    {
        let bounds = Bounds::new(low, high).unwrap();
        ops.push(activate(tensor, tensor, Function::Clamp(bounds)));
    }
    ops
}
