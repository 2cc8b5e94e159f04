//! Operators in few words.

use reef_op::{
    Activate, Bounds, Conv2d, Function, Layout, Multiply, Op, Pool2d, PoolKind, Tensor, Window,
};

pub(super) fn native(shape: [usize; 4]) -> Tensor {
    Tensor::new(Layout::Native, shape)
}

pub(super) fn window(size: [usize; 2], stride: [usize; 2], padding: [usize; 2]) -> Window {
    Window { size, stride, padding }
}

/// A convolution with an output as large as it must be.
pub(super) fn conv(input: Tensor, channels: usize, window: Window) -> Conv2d {
    let [height, width] = window.over([input.height, input.width]);
    Conv2d::new(input, native([input.batch, channels, height, width]), window)
}

pub(super) fn pool(kind: PoolKind, input: Tensor, window: Window) -> Pool2d {
    let [height, width] = window.over([input.height, input.width]);
    Pool2d { kind, input, output: native([input.batch, input.channels, height, width]), window }
}

pub(super) fn widened(tensor: Tensor, first: usize, behind: usize) -> Tensor {
    tensor.channels(first, tensor.channels, first + tensor.channels + behind)
}

pub(super) fn activate(input: Tensor, output: Tensor, function: Function) -> Op {
    Op::Activate(Activate { input, output, function })
}

pub(super) fn multiply(input: Tensor, factor: Tensor, output: Tensor) -> Op {
    Op::Multiply(Multiply { input, factor, output })
}

pub(super) const FUNCTIONS: [Function; 5] = [
    Function::Clamp(Bounds::RELU6),
    Function::HardSigmoid,
    Function::HardSwish,
    Function::Sigmoid,
    Function::Swish,
];
