//! Operators of random shapes.

use super::ops::{FUNCTIONS, activate, conv, multiply, native, pool, widened, window};
use super::reference::Random;
use reef_op::{Conv2d, Layout, Op, PoolKind, Tensor};

pub(super) fn random_conv(random: &mut Random) -> Op {
    let axis = |random: &mut Random| {
        let size = 1 + random.below(4);
        (size, 1 + random.below(3), random.below(size + 1))
    };
    let ((rows, dy, top), (columns, dx, left)) = (axis(random), axis(random));
    let groups = [1, 1, 1, 2, 3][random.below(5)];
    let mut channels = || groups * (1 + random.below(40));
    let (inputs, outputs) = (channels(), channels());
    let mut padding = || random.below(2) * random.below(20);
    let [a, b, c, d] = [padding(), padding(), padding(), padding()];
    let shape = [1 + random.below(2), inputs, 4 + random.below(16), 4 + random.below(16)];
    let layout = if random.below(4) == 0 { Layout::Nchw } else { Layout::Native };
    let input = widened(Tensor::new(layout, shape), a, b);
    let op = conv(input, outputs, window([rows, columns], [dy, dx], [top, left]));
    let (residual, relu) = (random.below(2) == 0, random.below(2) == 0);
    Op::Conv2d(Conv2d { groups, residual, relu, output: widened(op.output, c, d), ..op })
}

pub(super) fn random_depthwise(random: &mut Random) -> Op {
    let mut axis = || {
        let size = [3, 5, 7][random.below(3)];
        (size, 1 + random.below(2), random.below(size + 1))
    };
    let ((rows, dy, top), (columns, dx, left)) = (axis(), axis());
    let groups = 2 + random.below(70);
    let shape = [1 + random.below(2), groups, 7 + random.below(20), 7 + random.below(20)];
    let input = widened(native(shape), random.below(20), random.below(20));
    let op = conv(input, groups, window([rows, columns], [dy, dx], [top, left]));
    let output = widened(op.output, random.below(20), random.below(20));
    let (residual, relu) = (random.below(2) == 0, random.below(2) == 0);
    Op::Conv2d(Conv2d { groups, residual, relu, output, ..op })
}

pub(super) fn random_pool(random: &mut Random) -> Op {
    let size = [1 + random.below(4), 1 + random.below(4)];
    let padding = size.map(|size| random.below(size));
    let shape =
        [1 + random.below(2), 1 + random.below(90), 4 + random.below(9), 4 + random.below(9)];
    let input = widened(native(shape), random.below(9), random.below(9));
    let kind = [PoolKind::Max, PoolKind::Average][random.below(2)];
    let stride = [1 + random.below(3), 1 + random.below(3)];
    Op::Pool2d(pool(kind, input, window(size, stride, padding)))
}

pub(super) fn random_pointwise(random: &mut Random) -> Op {
    let channels = 1 + random.below(90);
    let shape = [1 + random.below(3), channels, 1 + random.below(13), 1 + random.below(13)];
    let mut slice = |shape| widened(native(shape), random.below(9), random.below(9));
    let (input, output) = (slice(shape), slice(shape));
    let (same, gate) = (slice(shape), slice([shape[0], channels, 1, 1]));
    match random.below(5) {
        0 => multiply(input, same, output),
        1 => multiply(input, gate, output),
        i => activate(input, output, FUNCTIONS[i - 2]),
    }
}
