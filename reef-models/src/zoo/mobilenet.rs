//! MobileNet v1, v2 and v3: depthwise convolutions between convolutions of one row and column.
//!
//! v2 and v3 are torchvision's. v1 has the layers and names of the transformers library's
//! `MobileNetV1ForImageClassification` with `tf_padding = False` and 1000 classes: zeros on all
//! sides, where TensorFlow has more of them behind than before.

use crate::model::builder::{Builder, Conv, Value, square};
use crate::model::image_model::ImageModel;
use crate::model::tensor::{Constants, Norm};
use reef_op::{Bounds, Function, Layout, Multiply, Op};

/// Activation after a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activation {
    Nothing,
    Relu,
    Relu6,
    HardSwish,
}

/// A convolution with its normalisation.
struct Layer<'a> {
    conv: String,
    norm: String,
    channels: usize,
    window: [usize; 2],
    depthwise: bool,
    epsilon: f64,
    after: Activation,
    residual: Option<&'a Value>,
}

impl Layer<'_> {
    fn new(conv: String, norm: String, channels: usize, after: Activation) -> Self {
        let (window, depthwise) = ([1, 1], false);
        Self { conv, norm, channels, window, depthwise, epsilon: 1e-5, after, residual: None }
    }

    /// With a window of `size` rows and columns, `stride` apart.
    fn window(self, size: usize, stride: usize) -> Self {
        Self { window: [size, stride], ..self }
    }

    fn build(self, b: &mut Builder, x: Value) -> Value {
        let [size, stride] = self.window;
        let ends_branch = self.residual.is_some();
        let norm = Norm { name: self.norm, epsilon: self.epsilon, ends_branch };
        let mut conv = Conv::new(&*self.conv, self.channels, square(size, stride, size / 2));
        conv = conv.norm(norm).groups(if self.depthwise { self.channels } else { 1 });
        conv = match self.after {
            Activation::Nothing => conv,
            Activation::Relu => conv.relu(),
            Activation::Relu6 => conv.then(Function::Clamp(Bounds::RELU6)),
            Activation::HardSwish => conv.then(Function::HardSwish),
        };
        if let Some(residual) = self.residual {
            conv = conv.add(*residual);
        }
        b.conv(x, conv)
    }
}

/// Channels of v1's layers and how far apart their windows are.
const V1: [(usize, usize); 13] = [
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (1024, 2),
    (1024, 1),
];

pub(crate) fn v1(mut b: Builder, size: usize) -> ImageModel {
    let layer = |module: &str, channels| {
        let [conv, norm] =
            ["convolution", "normalization"].map(|part| format!("mobilenet_v1.{module}.{part}"));
        Layer { epsilon: 0.001, ..Layer::new(conv, norm, channels, Activation::Relu6) }
    };
    let x = b.input(size);
    let mut x = layer("conv_stem", 32).window(3, 2).build(&mut b, x);
    for (number, (channels, stride)) in V1.into_iter().enumerate() {
        let [depth, point] = [2 * number, 2 * number + 1].map(|k| format!("layer.{k}"));
        let depthwise = Layer { depthwise: true, ..layer(&depth, x.channels()) };
        x = depthwise.window(3, stride).build(&mut b, x);
        x = layer(&point, channels).build(&mut b, x);
    }
    let x = b.global_average("mobilenet_v1.pooler", x);
    b.classify("classifier", x, 1000)
}

/// v2's blocks: how many times as wide inside, channels, how many, how far apart windows of the
/// first are.
const V2: [[usize; 4]; 7] = [
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
];

pub(crate) fn v2(mut b: Builder, size: usize) -> ImageModel {
    let x = b.input(size);
    let mut x = end("features.0", 32, Activation::Relu6).window(3, 2).build(&mut b, x);
    let each = V2.into_iter().flat_map(|[wider, channels, count, stride]| {
        (0..count).map(move |k| (wider, channels, if k == 0 { stride } else { 1 }))
    });
    for (number, (wider, channels, stride)) in each.enumerate() {
        let module = format!("features.{}.conv", number + 1);
        x = inverted(&mut b, &module, x, (wider, channels, stride));
    }
    let x = end("features.18", 1280, Activation::Relu6).build(&mut b, x);
    let x = b.global_average("avgpool", x);
    b.classify("classifier.1", x, 1000)
}

/// A convolution with its normalisation as torchvision names both.
fn end(module: &str, channels: usize, after: Activation) -> Layer<'static> {
    Layer::new(format!("{module}.0"), format!("{module}.1"), channels, after)
}

/// A block of v2: wider, each channel by itself, narrower; and what came in, if it is as large.
fn inverted(b: &mut Builder, module: &str, input: Value, block: (usize, usize, usize)) -> Value {
    let (wider, channels, stride) = block;
    let inside = wider * input.channels();
    let (mut x, mut part) = (input, 0);
    if wider > 1 {
        x = end(&format!("{module}.0"), inside, Activation::Relu6).build(b, x);
        part = 1;
    }
    let depthwise = end(&format!("{module}.{part}"), inside, Activation::Relu6).window(3, stride);
    let x = Layer { depthwise: true, ..depthwise }.build(b, x);
    let [conv, norm] = [part + 1, part + 2].map(|part| format!("{module}.{part}"));
    let narrow = Layer::new(conv, norm, channels, Activation::Nothing);
    let is_residual = stride == 1 && input.channels() == channels;
    Layer { residual: is_residual.then_some(&input), ..narrow }.build(b, x)
}

/// A block of v3: window, channels inside, channels, whether it weighs channels, what follows,
/// stride.
pub(crate) type Block = (usize, usize, usize, bool, Activation, usize);

pub(crate) const LARGE: &[Block] = &[
    (3, 16, 16, false, Activation::Relu, 1),
    (3, 64, 24, false, Activation::Relu, 2),
    (3, 72, 24, false, Activation::Relu, 1),
    (5, 72, 40, true, Activation::Relu, 2),
    (5, 120, 40, true, Activation::Relu, 1),
    (5, 120, 40, true, Activation::Relu, 1),
    (3, 240, 80, false, Activation::HardSwish, 2),
    (3, 200, 80, false, Activation::HardSwish, 1),
    (3, 184, 80, false, Activation::HardSwish, 1),
    (3, 184, 80, false, Activation::HardSwish, 1),
    (3, 480, 112, true, Activation::HardSwish, 1),
    (3, 672, 112, true, Activation::HardSwish, 1),
    (5, 672, 160, true, Activation::HardSwish, 2),
    (5, 960, 160, true, Activation::HardSwish, 1),
    (5, 960, 160, true, Activation::HardSwish, 1),
];

pub(crate) const SMALL: &[Block] = &[
    (3, 16, 16, true, Activation::Relu, 2),
    (3, 72, 24, false, Activation::Relu, 2),
    (3, 88, 24, false, Activation::Relu, 1),
    (5, 96, 40, true, Activation::HardSwish, 2),
    (5, 240, 40, true, Activation::HardSwish, 1),
    (5, 240, 40, true, Activation::HardSwish, 1),
    (5, 120, 48, true, Activation::HardSwish, 1),
    (5, 144, 48, true, Activation::HardSwish, 1),
    (5, 288, 96, true, Activation::HardSwish, 2),
    (5, 576, 96, true, Activation::HardSwish, 1),
    (5, 576, 96, true, Activation::HardSwish, 1),
];

/// v3 with these blocks, and `hidden` values before the last layer.
pub(crate) fn v3(mut b: Builder, blocks: &[Block], hidden: usize, size: usize) -> ImageModel {
    let x = b.input(size);
    let first = Layer { epsilon: 0.001, ..end("features.0", 16, Activation::HardSwish) };
    let mut x = first.window(3, 2).build(&mut b, x);
    for (number, block) in blocks.iter().enumerate() {
        x = weighed(&mut b, &format!("features.{}.block", number + 1), x, *block);
    }
    let last =
        end(&format!("features.{}", blocks.len() + 1), 6 * x.channels(), Activation::HardSwish);
    let x = Layer { epsilon: 0.001, ..last }.build(&mut b, x);
    let x = b.global_average("avgpool", x);
    let wide = Conv::new("classifier.0", hidden, square(1, 1, 0)).biased();
    let x = b.conv(x, wide.then(Function::HardSwish));
    b.classify("classifier.3", x, 1000)
}

/// A block of v3.
fn weighed(b: &mut Builder, module: &str, input: Value, block: Block) -> Value {
    let (window, inside, channels, weighs, after, stride) = block;
    let layer = |part: usize, channels, after| Layer {
        epsilon: 0.001,
        ..end(&format!("{module}.{part}"), channels, after)
    };
    let (mut x, mut part) = (input, 0);
    if inside != input.channels() {
        x = layer(0, inside, after).build(b, x);
        part = 1;
    }
    let depthwise = layer(part, inside, after).window(window, stride);
    x = Layer { depthwise: true, ..depthwise }.build(b, x);
    if weighs {
        part += 1;
        x = weigh(b, &format!("{module}.{part}"), x);
    }
    let narrow = layer(part + 1, channels, Activation::Nothing);
    let is_residual = stride == 1 && input.channels() == channels;
    Layer { residual: is_residual.then_some(&input), ..narrow }.build(b, x)
}

/// Each channel times what two small layers make of all channels' means.
fn weigh(b: &mut Builder, module: &str, x: Value) -> Value {
    let squeezed = divisible_by_8(x.channels() / 4);
    let means = b.global_average(&format!("{module}.avgpool"), x);
    let small = Conv::new(format!("{module}.fc1"), squeezed, square(1, 1, 0)).biased().relu();
    let small = b.conv(means, small);
    let gates = Conv::new(format!("{module}.fc2"), x.channels(), square(1, 1, 0)).biased();
    let gates = b.conv(small, gates.then(Function::HardSigmoid));
    let size = [x.tensor.height, x.tensor.width];
    let output = b.storage(module, Layout::Native, x.channels(), size);
    let op = Multiply { input: x.tensor, factor: gates.tensor, output: output.tensor };
    b.step(module.into(), &[x, gates], output, Op::Multiply(op), Constants::None)
}

/// The next multiple of 8, or the one before it if that is less than a tenth away.
fn divisible_by_8(channels: usize) -> usize {
    let near = ((channels + 4) / 8 * 8).max(8);
    if 10 * near < 9 * channels { near + 8 } else { near }
}
