//! The operators as their definitions say, in `f64` and dense NCHW, and a small random generator.

use reef_op::{
    Activate, Conv2d, Function, Linear, Multiply, Op, Pool2d, PoolKind, ScaleShift, Tensor, Window,
};

/// Output of an operator. Tensors are dense, without the other channels of their storage.
pub(in crate::kernels) fn compute(
    op: &Op,
    input: &[f32],
    residual: &[f32],
    constants: [&[f32]; 2],
) -> Vec<f64> {
    match op {
        Op::Conv2d(op) => conv(op, input, residual, constants),
        Op::Pool2d(op) => pool(op, input),
        Op::ScaleShift(op) => scale_shift(op, input, constants),
        Op::Linear(op) => linear(op, input, constants),
        Op::Activate(op) => activate(op, input),
        Op::Multiply(op) => multiply(op, input, residual),
    }
}

fn relu(on: bool, value: f64) -> f64 {
    if on && value < 0.0 { 0.0 } else { value } // which keeps what is not a number
}

/// Every index of a tensor, row-major.
pub(in crate::kernels) fn indices(of: &Tensor) -> impl Iterator<Item = [usize; 4]> + use<> {
    let Tensor { batch, channels, height, width, .. } = *of;
    (0..batch * channels * height * width).map(move |i| {
        [
            i / (channels * height * width),
            i / (height * width) % channels,
            i / width % height,
            i % width,
        ]
    })
}

/// Calls `visit(position, index)` for what a window sees inside of the image.
fn window(
    of: &Window,
    input: &Tensor,
    [y, x]: [usize; 2],
    mut visit: impl FnMut(usize, [usize; 2]),
) {
    for row in 0..of.size[0] {
        for column in 0..of.size[1] {
            let y = (y * of.stride[0] + row).wrapping_sub(of.padding[0]);
            let x = (x * of.stride[1] + column).wrapping_sub(of.padding[1]);
            if y < input.height && x < input.width {
                visit(row * of.size[1] + column, [y, x]);
            }
        }
    }
}

fn at(of: &Tensor, [n, c, y, x]: [usize; 4]) -> usize {
    ((n * of.channels + c) * of.height + y) * of.width + x
}

fn conv(op: &Conv2d, input: &[f32], residual: &[f32], [weights, bias]: [&[f32]; 2]) -> Vec<f64> {
    let inputs = op.input.channels / op.groups;
    let outputs = op.output.channels / op.groups;
    let taps: usize = op.window.size.iter().product();
    let value = |(i, [n, o, y, x]): (usize, [usize; 4])| {
        let mut sum = f64::from(bias[o]);
        for c in 0..inputs {
            window(&op.window, &op.input, [y, x], |tap, [y, x]| {
                let input = input[at(&op.input, [n, o / outputs * inputs + c, y, x])];
                sum += f64::from(input) * f64::from(weights[(o * inputs + c) * taps + tap]);
            });
        }
        let residual = if op.residual { f64::from(residual[i]) } else { 0.0 };
        activate_value(op.function, relu(op.relu, sum + residual))
    };
    indices(&op.output).enumerate().map(value).collect()
}

fn pool(op: &Pool2d, input: &[f32]) -> Vec<f64> {
    let taps: usize = op.window.size.iter().product();
    let value = |[n, c, y, x]: [usize; 4]| {
        let (mut sum, mut max) = (0.0, f64::NEG_INFINITY);
        window(&op.window, &op.input, [y, x], |_, [y, x]| {
            let value = f64::from(input[at(&op.input, [n, c, y, x])]);
            sum += value;
            max = if value > max || value.is_nan() { value } else { max };
        });
        match op.kind {
            PoolKind::Max => max,
            PoolKind::Average => sum / taps as f64,
        }
    };
    indices(&op.output).map(value).collect()
}

fn scale_shift(op: &ScaleShift, input: &[f32], [weights, bias]: [&[f32]; 2]) -> Vec<f64> {
    let value = |(i, [_, c, ..]): (usize, [usize; 4])| {
        relu(op.relu, f64::from(input[i]) * f64::from(weights[c]) + f64::from(bias[c]))
    };
    indices(&op.input).enumerate().map(value).collect()
}

fn linear(op: &Linear, input: &[f32], [weights, bias]: [&[f32]; 2]) -> Vec<f64> {
    let inputs = op.input.channels;
    let value = |[n, o, ..]: [usize; 4]| {
        let row = &weights[o * inputs..][..inputs];
        let terms = input[n * inputs..].iter().zip(row).map(|(a, b)| f64::from(*a) * f64::from(*b));
        activate_value(op.function, relu(op.relu, f64::from(bias[o]) + terms.sum::<f64>()))
    };
    indices(&op.output).map(value).collect()
}

fn activate_value(function: Option<Function>, x: f64) -> f64 {
    let hard = ((x + 3.0) / 6.0).clamp(0.0, 1.0);
    let soft = 1.0 / (1.0 + (-x).exp());
    match function {
        None => x,
        Some(Function::Clamp(bounds)) => x.clamp(bounds.low().into(), bounds.high().into()),
        Some(Function::HardSigmoid) => hard,
        Some(Function::HardSwish) => x * hard,
        Some(Function::Sigmoid) => soft,
        Some(Function::Swish) => x * soft,
    }
}

fn activate(op: &Activate, input: &[f32]) -> Vec<f64> {
    input.iter().map(|&x| activate_value(Some(op.function), x.into())).collect()
}

fn multiply(op: &Multiply, input: &[f32], factor: &[f32]) -> Vec<f64> {
    let value = |(i, [n, c, y, x]): (usize, [usize; 4])| {
        let [y, x] = if op.factor.height * op.factor.width == 1 { [0, 0] } else { [y, x] };
        f64::from(input[i]) * f64::from(factor[at(&op.factor, [n, c, y, x])])
    };
    indices(&op.input).enumerate().map(value).collect()
}

/// Marsaglia's xorshift: the same numbers from the same seed.
#[derive(Debug, Clone)]
pub(in crate::kernels) struct Random(u64);

impl Random {
    pub(in crate::kernels) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// One of `0..below`.
    pub(in crate::kernels) fn below(&mut self, below: usize) -> usize {
        (self.next() >> 33) as usize % below
    }

    /// `len` values between -1 and 1.
    pub(in crate::kernels) fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
    }
}
