//! Values that networks with numbers of 8 bits give, by plain loops.

use super::{scaled, text};
use proptest::prelude::*;
use reef_models::kinds::reference::{self, Inputs, apply};
use reef_models::kinds::{ImageModel, Source, TensorSpec, Tensors, full_quantization, plan};
use reef_models::param::Params;
use reef_models::{Result, Scales, Seeded};
use reef_op::{Conv2d, Format, Layout, Op, Pool2d, PoolKind, Quantized, Tensor, Window};

fn numbers(format: Format, scale: f32) -> Layout {
    Layout::Quantized(Quantized::new(format, scale).unwrap())
}

const POINT: Window = Window { size: [1; 2], stride: [1; 2], padding: [0; 2] };

/// A convolution of 1 x 1 from `inputs` to `outputs` channels of two pixels.
fn conv(input: Layout, output: Layout, inputs: usize, outputs: usize) -> Conv2d {
    let input = Tensor::new(input, [1, inputs, 1, 2]);
    Conv2d::new(input, Tensor::new(output, [1, outputs, 1, 2]), POINT)
}

/// By hand: weights 1.27 and -0.624 in steps of 0.01 are 127 and -62 of them.
#[test]
fn convolution_of_integers_gives_what_a_hand_computes() {
    let [half, quarter] = [0.5, 0.25].map(|scale| numbers(Format::Int8, scale));
    let op = Conv2d { residual: true, relu: true, ..conv(half, quarter, 2, 1) };
    let inputs = Inputs {
        input: &[1.0, -63.5, 0.5, 2.0],
        residual: Some(&[0.25, 2.0]),
        weights: &[1.27, -0.624],
        bias: &[0.1],
    };
    let mut output = [9.0; 2];
    apply(&Op::Conv2d(op), inputs, &mut output);
    // 1.27 * 1 - 0.62 * 0.5 + 0.1 + 0.25 = 1.31 lies between 1.25 and 1.5; the other is negative.
    assert_eq!(output, [1.25, 0.0]);
    let rounded = [1.27f32, -0.62].map(f64::from);
    let op = Conv2d { output: Tensor { layout: Layout::Native, ..op.output }, ..op };
    apply(&Op::Conv2d(Conv2d { relu: false, ..op }), inputs, &mut output);
    let want = rounded[0] + rounded[1] * 0.5 + 0.35;
    assert!((f64::from(output[0]) - want).abs() < 1e-6, "{output:?} {want}");
}

#[test]
fn weights_stay_where_the_input_is_floats() {
    let op = conv(Layout::Native, numbers(Format::Fp8, 1.0), 1, 1);
    let inputs = Inputs { input: &[1.0, 400.0], residual: None, weights: &[1.03], bias: &[0.0] };
    let mut output = [0.0; 2];
    apply(&Op::Conv2d(op), inputs, &mut output);
    assert_eq!(output, [1.0, 416.0], "412 lies between 384 and 416, in steps of 32");
}

#[test]
fn average_is_rounded_to_a_number() {
    let layout = numbers(Format::Int8, 0.5);
    let op = Pool2d {
        kind: PoolKind::Average,
        input: Tensor::new(layout, [1, 1, 1, 2]),
        output: Tensor::new(layout, [1, 1, 1, 1]),
        window: Window { size: [1, 2], ..POINT },
    };
    let inputs = Inputs { input: &[0.5, 2.0], residual: None, weights: &[], bias: &[] };
    let mut output = [0.0];
    apply(&Op::Pool2d(op), inputs, &mut output);
    assert_eq!(output, [1.0], "1.25 is 2.5 numbers, and 2 is even");
}

/// Greatest distance of a value up to `largest` from the nearest that has a number.
fn worst(format: Format, largest: f32) -> f32 {
    match format {
        Format::Int8 => largest / 127.0 / 2.0,
        Format::Fp8 => largest / 448.0 * 16.0, // half a step of the largest floats
    }
}

proptest! {
    #[test]
    fn error_of_a_convolution_is_bounded_by_its_scales(
        values in prop::collection::vec(-3f32..3.0, 8),
        weights in prop::collection::vec(-2f32..2.0, 12),
        format in prop::sample::select(Format::ALL.to_vec()),
    ) {
        let largest = |values: &[f32]| values.iter().fold(0f32, |most, x| most.max(x.abs()));
        let run = |op: Conv2d, input: &[f32]| {
            let mut output = vec![0.0; 6];
            let inputs = Inputs { input, residual: None, weights: &weights, bias: &[0.5; 3] };
            apply(&Op::Conv2d(op), inputs, &mut output);
            output
        };
        let want = run(conv(Layout::Native, Layout::Native, 4, 3), &values);
        let [x, y] = [largest(&values), largest(&want)];
        let [input, output] =
            [x, y].map(|largest| Quantized::new(format, format.scale_of(largest)).unwrap());
        let nearest: Vec<f32> = values.iter().map(|&value| input.nearest(value)).collect();
        let [in8, out8] = [input, output].map(Layout::Quantized);
        let have = run(conv(in8, out8, 4, 3), &nearest);
        for channel in 0..3 {
            let row = &weights[channel * 4..][..4];
            let w = largest(row);
            let (dx, dw) = (worst(format, x), worst(format, w));
            let sum = row.iter().map(|weight| weight.abs() * dx + x * dw + dx * dw).sum::<f32>();
            let bound = (sum + worst(format, y)) * 1.0001 + 1e-6;
            for at in channel * 2..channel * 2 + 2 {
                let off = (have[at] - want[at]).abs();
                prop_assert!(off <= bound, "{} for {}: off by {off} > {bound}", have[at], want[at]);
            }
        }
    }
}

#[test]
fn outputs_of_networks_are_near_those_of_floats() {
    for (name, size) in [("resnet18", 64), ("densenet121", 32), ("inception_v3", 75)] {
        for format in Format::ALL {
            let (model, scales) = scaled(name, size, format);
            let (floats, tensors) = model.image().unwrap();
            let input = Seeded(2).input(model.input_len());
            let want = reference::execute(floats, tensors, &input).unwrap();
            let planned = plan(floats, &scales, full_quantization).unwrap();
            let have = reference::execute(&planned, tensors, &input).unwrap();
            let largest = want.iter().fold(0f32, |most, x| most.max(x.abs()));
            let off =
                have.iter().zip(&want).map(|(a, b)| (a - b).abs()).max_by(f32::total_cmp).unwrap();
            println!("{name} {}: off by {}", format.name(), off / largest);
            assert!(off > 0.0 && off < largest * 0.2, "{name} {}: {off}", format.name());
        }
    }
}

/// Tensors of which each value is off by a part of up to 1e-5.
struct Moved<'a>(&'a Tensors);

impl Source for Moved<'_> {
    fn tensor(&self, tensor: &TensorSpec) -> Result<Vec<f32>> {
        let values = self.0.tensor(tensor)?;
        let noise = Seeded(99).input(values.len());
        Ok(values.iter().zip(noise).map(|(value, noise)| value * (1.0 + 1e-5 * noise)).collect())
    }
}

/// Number that is rounded the other way changes others, and those still others: so devices whose
/// sums differ in the last bits are as far apart as `reef model verify --scales` allows.
#[test]
fn last_bits_of_weights_change_outputs_within_the_tolerance() {
    for format in Format::ALL {
        let (model, scales) = scaled("resnet18", 64, format);
        let (floats, tensors) = model.image().unwrap();
        let input = Seeded(2).input(model.input_len());
        let planned = plan(floats, &scales, full_quantization).unwrap();
        let want = reference::execute(&planned, tensors, &input).unwrap();
        let have = reference::execute(&planned, &Moved(tensors), &input).unwrap();
        let largest = want.iter().fold(0f32, |most, x| most.max(x.abs()));
        let off =
            have.iter().zip(&want).map(|(a, b)| (a - b).abs()).max_by(f32::total_cmp).unwrap()
                / largest;
        println!("{}: {:.1} % of the largest output", format.name(), off * 100.0);
        assert!(off > 1e-3 && off < 0.1, "{}: {off}", format.name());
    }
}

/// Two convolutions and a linear layer, of which only the first writes numbers of 8 bits: the
/// linear layer reads floats.
#[test]
fn small_network_gives_what_a_hand_computes() {
    let tensor = |channels: usize, layout: &str| {
        format!(
            "{{\"batch\": 1, \"channels\": {channels}, \"height\": 1, \"width\": 1, \
             \"layout\": \"{layout}\", \"first\": 0, \"of\": {channels}}}"
        )
    };
    let window = "\"window\": {\"size\": [1, 1], \"stride\": [1, 1], \"padding\": [0, 0]}";
    let step = |name: &str, op: &str, ends: [String; 2], args: [usize; 2], more: &str| {
        let [input, output] = ends;
        format!(
            "{{\"name\": \"{name}\", \"op\": {{\"{op}\": {{\"input\": {input}, \
             \"output\": {output}, \"relu\": false{more}}}}}, \"args\": {args:?}, \
             \"constants\": {{\"biased\": {{\"name\": \"{name}\"}}}}}}"
        )
    };
    let conv = format!(", {window}, \"groups\": 1, \"residual\": false");
    let steps = [
        step("a", "conv2d", [tensor(2, "nchw"), tensor(2, "native")], [0, 1], &conv),
        step("b", "conv2d", [tensor(2, "native"), tensor(1, "native")], [1, 2], &conv),
        step("c", "linear", [tensor(1, "native"), tensor(1, "nchw")], [2, 3], ""),
    ];
    let storage =
        |name, size| format!("{{\"name\": \"{name}\", \"size\": {size}, \"stype\": \"float32\"}}");
    let storages = [("data", 2), ("a", 2), ("b", 1), ("output", 1)].map(|(n, s)| storage(n, s));
    let network = format!(
        "{{\"storage\": [{}], \"kernels\": [{}], \"args\": [0], \"shared_memory\": {{}}}}",
        storages.join(", "),
        steps.join(", ")
    );
    let model = ImageModel::from_json(&network, "small").unwrap();
    let values = [
        ("a.weight", vec![1.0, 0.0, 0.0, 1.0]),
        ("a.bias", vec![0.0, 0.0]),
        ("b.weight", vec![1.27, -0.624]),
        ("b.bias", vec![0.1]),
        ("c.weight", vec![2.0]),
        ("c.bias", vec![0.0]),
    ];
    let tensors = values.map(|(name, values)| (name.to_owned(), values)).into();
    let text = text("small", Format::Int8, [("a", 1.27), ("b", 1.0)]);
    let scales = Scales::from_json(&text, "small.json").unwrap();
    let planned = plan(&model, &scales, full_quantization).unwrap();
    let output = reference::execute(&planned, &Params { tensors }, &[0.5, 0.333]).unwrap();
    // a: 0.5 and 0.33, in steps of 0.01; weights of b: 1.27 and -0.62, in steps of 0.01.
    let want = 2.0 * (1.27 * 0.5 - 0.62 * 0.33 + 0.1);
    assert!((output[0] - want).abs() < 1e-6, "{output:?} {want}");
}
