//! Layers of networks, each with memory of its own, to be timed.

use super::reference::Random;
use crate::kernel::Kernel;
use crate::kernels::blocks::operand_layout::OperandMemory;
use crate::kernels::images::build::build;
use crate::kernels::images::pack::pack;
use crate::memory::buffer::Buffer;
use reef_op::{Conv2d, Layout, Linear, Op, Pool2d, PoolKind, Tensor, Window};

/// A step of the network.
pub(super) struct Layer {
    pub(super) op: Op,
    pub(super) kernels: Vec<(Kernel, u32)>,
}

impl Layer {
    pub(super) fn flops(&self) -> f64 {
        let terms = match &self.op {
            Op::Conv2d(op) => {
                op.input.channels / op.groups * op.window.size.iter().product::<usize>()
            }
            Op::Linear(op) => op.input.channels,
            Op::Pool2d(_) | Op::ScaleShift(_) | Op::Activate(_) | Op::Multiply(_) => 0,
        };
        2.0 * terms as f64 * self.op.output().elements() as f64
    }

    pub(super) fn name(&self) -> String {
        let (input, output) = (self.op.input(), self.op.output());
        let size = match &self.op {
            Op::Conv2d(op) => op.window.size,
            Op::Pool2d(op) => op.window.size,
            _ => [1, 1],
        };
        let kind = self.kernels[0].0.name();
        let ([rows, columns], height) = (size, output.height);
        format!(
            "{kind} {rows}x{columns} {:>4} -> {:>4} at {height:>3}",
            input.channels, output.channels
        )
    }
}

/// A network under construction.
pub(super) struct Network {
    pub(super) layers: Vec<Layer>,
    random: Random,
    /// Output of the last layer.
    pub(super) last: (OperandMemory, Tensor),
}

fn place(tensor: &Tensor) -> OperandMemory {
    OperandMemory { buffer: Buffer::zeroed(tensor.storage_elements() * 4).unwrap(), offset: 0 }
}

impl Network {
    pub(super) fn new(input: Tensor) -> Self {
        Self { layers: Vec::new(), random: Random::new(50), last: (place(&input), input) }
    }

    pub(super) fn push(&mut self, op: Op, residual: Option<OperandMemory>) {
        let [weights, bias] = op.constants().map(|len| self.random.floats(len));
        let weights: Vec<_> = weights.iter().map(|weight| weight * 0.03).collect();
        let constants = (!bias.is_empty()).then(|| pack(&op, &weights, &bias).unwrap());
        let output = place(op.output());
        let input = self.last.0.clone();
        let kernels = build(&op, input, residual, output.clone(), constants, 2).unwrap();
        self.layers.push(Layer { op, kernels });
        self.last = (output, *op.output());
    }

    pub(super) fn conv(
        &mut self,
        channels: usize,
        size: usize,
        stride: usize,
        residual: Option<OperandMemory>,
        relu: bool,
    ) {
        let padding = [size / 2; 2];
        let window = Window { size: [size; 2], stride: [stride; 2], padding };
        let input = self.last.1;
        let [height, width] = window.over([input.height, input.width]);
        let output = Tensor::new(Layout::Native, [input.batch, channels, height, width]);
        let residual_asked = residual.is_some();
        let (groups, function) = (1, None);
        let op = Conv2d { input, output, window, groups, residual: residual_asked, relu, function };
        self.push(Op::Conv2d(op), residual);
    }

    pub(super) fn pool(&mut self, kind: PoolKind, window: Window) {
        let input = self.last.1;
        let [height, width] = window.over([input.height, input.width]);
        let output = Tensor::new(Layout::Native, [input.batch, input.channels, height, width]);
        self.push(Op::Pool2d(Pool2d { kind, input, output, window }), None);
    }

    pub(super) fn bottleneck(&mut self, channels: usize, stride: usize) {
        let input = self.last.clone();
        let shortcut = if input.1.channels == 4 * channels {
            input.0.clone()
        } else {
            self.conv(4 * channels, 1, stride, None, false);
            std::mem::replace(&mut self.last, input).0
        };
        self.conv(channels, 1, 1, None, true);
        self.conv(channels, 3, stride, None, true);
        self.conv(4 * channels, 1, 1, Some(shortcut), true);
    }
}

/// The torchvision shape: strides are in the 3×3 convolutions.
pub(super) fn resnet50() -> Vec<Layer> {
    let image = Tensor::new(Layout::Nchw, [1, 3, 224, 224]);
    let mut net = Network::new(image);
    net.conv(64, 7, 2, None, true);
    net.pool(PoolKind::Max, Window { size: [3; 2], stride: [2; 2], padding: [1; 2] });
    for (channels, blocks, stride) in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)] {
        for block in 0..blocks {
            net.bottleneck(channels, if block == 0 { stride } else { 1 });
        }
    }
    net.pool(PoolKind::Average, Window { size: [7; 2], stride: [1; 2], padding: [0; 2] });
    let output = Tensor::new(Layout::Nchw, [1, 1000, 1, 1]);
    net.push(Op::Linear(Linear { input: net.last.1, output, relu: false, function: None }), None);
    net.layers
}
