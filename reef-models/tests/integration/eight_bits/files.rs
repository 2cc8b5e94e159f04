//! Files that ONNX Runtime's `quantize_static` wrote give what ONNX Runtime gives for them.
//! `tools/onnx_quantized.py` makes them.

use super::device::plain;
use crate::handmade::{file, node, scalar, singles, stored, value};
use reef_conformance::Null;
use reef_core::{Priority, Seq, issue};
use reef_models::kinds::reference::{Inputs, apply};
use reef_models::{Model, Network};
use reef_op::tensor::{Array, Eight, Element, Kind, Spec, TensorOp};
use reef_op::{Conv2d, Format, Layout, Op, Operators, Quantization, Quantized, Tensor, Window};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Images, and ONNX Runtime's outputs for them.
#[derive(serde::Deserialize)]
struct Cases {
    images: Vec<f64>,
    /// Class of each image.
    kinds: Vec<usize>,
    /// Outputs of the network that was quantized.
    floats: Vec<f64>,
    files: BTreeMap<String, Case>,
    layers: BTreeMap<String, Layer>,
}

#[derive(serde::Deserialize)]
struct Case {
    /// Scale of the numbers of 8 bits that become the outputs.
    step: f64,
    outputs: Vec<f64>,
}

/// A convolution of a file, and the numbers that it reads and makes for the first image.
#[derive(serde::Deserialize)]
struct Layer {
    /// Channels, rows and columns of the input; rows and columns of the output are the same.
    shape: [usize; 3],
    /// Rows and columns of the window.
    window: usize,
    scale_x: f32,
    zero_x: f32,
    weights: Vec<f32>,
    /// Of the weights of each output.
    scales: Vec<f32>,
    bias: Vec<f32>,
    scale_y: f32,
    zero_y: f32,
    input: Vec<f32>,
    output: Vec<f32>,
}

impl Layer {
    /// Its output by an operation on images, whose numbers have no zero point and go from -127 to
    /// 127: the bias has the zero points, and numbers whose zero point is -128 are one more.
    fn output_of_images(&self) -> Vec<f32> {
        let Self { shape: [channels, height, width], window, scale_x, scale_y, .. } = *self;
        let more = |zero: f32| f32::from(u8::from(zero == -128.0));
        let [more_x, more_y] = [self.zero_x, self.zero_y].map(more);
        let (zero_x, zero_y) = (self.zero_x + more_x, self.zero_y + more_y);
        let border = window / 2;
        let [rows, columns] = [height, width].map(|size| size + 2 * border);
        let mut input = vec![zero_x * scale_x; channels * rows * columns];
        for (at, number) in self.input.iter().enumerate() {
            let row = at / (height * width) * rows + at / width % height + border;
            input[row * columns + at % width + border] = (number + more_x).min(127.0) * scale_x;
        }
        let filters = self.weights.chunks(self.weights.len() / self.scales.len());
        let filters = filters.zip(&self.scales);
        let weights = filters.clone().flat_map(|(row, scale)| row.iter().map(move |w| w * scale));
        let weights: Vec<f32> = weights.collect();
        let bias = filters.zip(&self.bias).map(|((row, scale), bias)| {
            let sum: f32 = row.iter().sum();
            (bias - zero_x * sum) * scale_x * scale + zero_y * scale_y
        });
        let bias: Vec<f32> = bias.collect();
        let numbers = |scale| Layout::Quantized(Quantized::new(Format::Int8, scale).unwrap());
        let op = Op::Conv2d(Conv2d::new(
            Tensor::new(numbers(scale_x), [1, channels, rows, columns]),
            Tensor::new(numbers(scale_y), [1, bias.len(), height, width]),
            Window { size: [window; 2], stride: [1; 2], padding: [0; 2] },
        ));
        let mut output = vec![0.0; self.output.len()];
        let inputs = Inputs { input: &input, residual: None, weights: &weights, bias: &bias };
        apply(&op, inputs, &mut output);
        output.iter().map(|value| (value / scale_y).round() - more_y).collect()
    }
}

impl Layer {
    /// Its output by an operation on tensors, which has zero points, and writes numbers from -127
    /// to 127: those whose zero point is -128 are one more.
    fn output_of_tensors(&self) -> Vec<f32> {
        let Self { shape: [channels, height, width], window, .. } = *self;
        let (points, outputs) = (height * width, self.scales.len());
        let more = f32::from(u8::from(self.zero_y == -128.0));
        let eight = Eight {
            shape: [1, channels, height, width],
            over: [outputs, height, width],
            size: [window; 2],
            stride: [1; 2],
            padding: [window / 2; 2],
            scales: [self.scale_x, self.scale_y],
            zeros: [self.zero_x, self.zero_y + more].map(|zero| zero as i8),
            relu: false,
        };
        let spec = |element, dims: &[usize]| Spec { element, dims: dims.to_vec() };
        let op = TensorOp {
            kind: Kind::Eight(eight),
            inputs: vec![
                spec(Element::I8, &[1, height, width, channels]),
                spec(Element::F32, &[outputs, channels, window, window]),
                spec(Element::F32, &[outputs]),
            ],
            output: spec(Element::I8, &[1, height, width, outputs]),
        };
        let number = |at: usize| self.input[at % channels * points + at / channels] as i8;
        let input = Array::I8((0..channels * points).map(number).collect());
        let filters = self.weights.chunks(self.weights.len() / outputs).zip(&self.scales);
        let weights = filters.flat_map(|(row, scale)| row.iter().map(move |w| w * scale));
        let weights = Array::F32(weights.collect());
        let bias = self.bias.iter().zip(&self.scales);
        let bias = Array::F32(bias.map(|(bias, scale)| bias * self.scale_x * scale).collect());
        let values = [input.values(), weights.values(), bias.values()];
        let made = op.compute(&values, 0..outputs * points, &|| false).unwrap().unwrap();
        let made = made.values().to_f64();
        let place = |at: usize| at % points * outputs + at / points;
        (0..made.len()).map(|at| made[place(at)] as f32 - more).collect()
    }
}

/// A device that has operations of tensors, and kernels of 8 bits for chunks of 16 channels.
fn tensors() -> Null {
    plain().with_tensors().with_quantization(in_chunks)
}

fn in_chunks(op: &Op) -> Quantization {
    let input = op.input().channels.is_multiple_of(16);
    Quantization { input, output: op.output().channels.is_multiple_of(4), keeps: false }
}

/// Output of an inference for an image.
fn infer<D: Operators>(device: &D, network: &Network<D>, image: &Array) -> Vec<f64> {
    network.stage(0, image).unwrap();
    run(device, network);
    network.output(0).unwrap().values().to_f64()
}

fn run<D: Operators>(device: &D, network: &Network<D>) {
    let mut queue = device.queue(Priority::BestEffort, None).unwrap();
    for (seq, command) in (0..).map(Seq).zip(&*network.inference()) {
        issue(command, seq, None, &mut queue).unwrap();
    }
}

fn cases() -> Cases {
    let text = std::fs::read_to_string(folder().join("cases.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx_quantized")
}

/// Largest and mean difference.
fn differences(a: &[f64], b: &[f64]) -> [f64; 2] {
    assert_eq!(a.len(), b.len());
    let each: Vec<f64> = a.iter().zip(b).map(|(a, b)| (a - b).abs()).collect();
    let largest = each.iter().copied().fold(0.0, f64::max);
    [largest, each.iter().sum::<f64>() / each.len() as f64]
}

fn top(outputs: &[f64]) -> usize {
    (0..outputs.len()).max_by(|&a, &b| outputs[a].total_cmp(&outputs[b])).unwrap()
}

/// Numbers per tensor and per channel, signed and unsigned, symmetric or not, in both formats.
#[test]
fn quantized_files_are_as_near_to_floats_as_in_onnx_runtime() {
    let cases = cases();
    let images = cases.kinds.len();
    for (name, Case { step, outputs }) in &cases.files {
        let model = Model::open(folder().join(format!("{name}.onnx"))).read().unwrap();
        let network = model.tensors().unwrap_or_else(|| panic!("{name}: no network of tensors"));
        let mut made = Vec::with_capacity(outputs.len());
        for image in cases.images.chunks(cases.images.len() / images) {
            let image = Array::F32(image.iter().map(|&value| value as f32).collect());
            let output = network.execute(&[image]).unwrap().remove(0);
            made.extend(output.values().to_f64());
        }
        let [apart, _] = differences(&made, outputs);
        assert!(apart <= step * 1.001, "{name}: off by {apart}, a step is {step}");
        let [largest, mean] = differences(&made, &cases.floats);
        let [largest_there, mean_there] = differences(outputs, &cases.floats);
        let is_as_near = largest <= largest_there + step * 1.001 && mean <= mean_there * 1.05;
        assert!(is_as_near, "{name}: {largest} and {mean}, {largest_there} and {mean_there} there");
        let tops: Vec<usize> = made.chunks(made.len() / images).map(top).collect();
        assert_eq!(tops, cases.kinds, "{name}");
    }
    assert_eq!(cases.files.len(), 5);
}

/// Kernels of 8 bits compute what the files say: docs/internals/quantized-files.md.
#[test]
fn operations_on_images_have_zero_points_in_their_bias() {
    let cases = cases();
    for (name, layer) in &cases.layers {
        for made in [layer.output_of_images(), layer.output_of_tensors()] {
            assert_eq!(made.len(), layer.output.len(), "{name}");
            let off = made.iter().zip(&layer.output).map(|(a, b)| (a - b).abs());
            let off: Vec<f32> = off.filter(|&off| off > 0.0).collect();
            assert!(off.iter().all(|&off| off <= 1.0), "{name}: {off:?}");
            assert!(off.len() <= made.len() / 100, "{name}: {} of {}", off.len(), made.len());
        }
    }
    assert_eq!(cases.layers.len(), 4);
}

/// A device with kernels of 8 bits runs convolutions of files with them, as operations on images
/// with packed weights. The first convolution has three channels.
#[test]
fn quantized_files_run_on_kernels_of_8_bits() {
    let cases = cases();
    let images = cases.kinds.len();
    for (name, Case { step, outputs }) in &cases.files {
        let model = Model::open(folder().join(format!("{name}.onnx"))).read().unwrap();
        let steps = model.tensors().unwrap().steps_on(&tensors());
        let joined = steps.iter().filter(|step| step.op.name() == "eight").count();
        assert_eq!(joined, 2, "{name}");
        let weights = model.weights(&tensors()).unwrap();
        let network = weights.network().unwrap();
        let mut made = Vec::with_capacity(outputs.len());
        for image in cases.images.chunks(cases.images.len() / images) {
            let image = Array::F32(image.iter().map(|&value| value as f32).collect());
            made.extend(infer(&tensors(), &network, &image));
        }
        let [apart, _] = differences(&made, outputs);
        assert!(apart <= step * 1.001, "{name}: off by {apart}, a step is {step}");
        let again = model.weights_sharing(&weights).unwrap();
        assert_eq!(again.own_bytes(Some(&weights)), 0, "{name}: equal constants are there");
    }
}

/// A convolution that images of two scales share, as in a detector's head. Biases are such that no
/// number lies half-way between two others.
fn shared_convolution() -> Vec<u8> {
    let one = |k: &str| {
        let [x, q, v, c, n, y, s, z] =
            ["x", "q", "v", "c", "n", "y", "s", "z"].map(|name| format!("{name}{k}"));
        let dims = [1, 16, 2, 3];
        let parts = [
            node("QuantizeLinear", &[&x, &s, &z], &q, &[]),
            node("DequantizeLinear", &[&q, &s, &z], &v, &[]),
            node("Conv", &[&v, "w", "b"], &c, &[]),
            node("QuantizeLinear", &[&c, "s", "z"], &n, &[]),
            node("DequantizeLinear", &[&n, "s", "z"], &y, &[]),
            value(11, &x, &dims),
            value(12, &y, &dims),
        ];
        parts.concat()
    };
    let zero = |name: &str, number: i8| stored(name, 3, &[], &number.to_le_bytes());
    let weight = |at: i64| if at % 16 == 0 { 127 } else { at * 37 % 255 - 127 };
    let constants = [
        singles("w", &[16, 16, 1, 1], |at| weight(at) as f32 / 128.0),
        singles("b", &[16], |at| (2 * at + 1) as f32 / 1024.0),
        scalar("s1", 0.5),
        scalar("s2", 0.25),
        scalar("s", 0.25),
        zero("z1", 3),
        zero("z2", -128),
        zero("z", 5),
    ];
    file(17, &[one("1"), one("2"), constants.concat()])
}

#[test]
fn weights_that_two_scales_share_are_packed_for_each() {
    let read = Model::from_onnx(&shared_convolution(), "shared").tensors_only().read();
    let (device, model) = (tensors(), read.unwrap());
    let steps = model.tensors().unwrap().steps_on(&device);
    assert_eq!(steps.iter().filter(|step| step.op.name() == "eight").count(), 2);
    let network = model.load(&device).unwrap();
    let sample = |at: usize| (at * 7 % 31) as f32 / 4.0 - 1.0;
    let x = [0, 5].map(|from| Array::F32((from..from + 96).map(sample).collect()));
    x.iter().enumerate().for_each(|(k, x)| network.stage(k, x).unwrap());
    run(&device, &network);
    for (k, want) in model.tensors().unwrap().execute(&x).unwrap().iter().enumerate() {
        assert_eq!(network.output(k).unwrap(), *want, "y{}", k + 1);
    }
}
