//! Numbers of 8 bits: a network whose weights and scales are powers of two times whole numbers, so
//! that plain loops and kernels round the same values.

use crate::handmade::{file, ints, node, singles, value};
use crate::right::are_close;
use crate::subject::run_alone;
use crate::tensors::quantized::{FILES, file_agrees};
use reef::Device;
use reef::cpu::Cpu;
use reef::models::kinds::{quantized_steps, reference};
use reef::models::{Model, Scales, Seeded};
use reef::op::{Format, Operators};
use serde_json::{Value, json};

const INPUT: [i64; 4] = [2, 16, 9, 11];
/// Channels between the convolutions: sums of 576 and of 4608 terms.
const CHANNELS: [i64; 2] = [64, 512];

/// Convolutions with and without a residual, behind an image and behind a pool, give the output of
/// plain loops; the last one writes floats. Sums of integers are exact, those of floats nearly.
pub(crate) fn eight_bits_agree<D: Operators>(device: &D) {
    for channels in CHANNELS {
        agrees(device, Format::Int8, channels, 5e-4);
        agrees(device, Format::Fp8, channels, 2e-2);
    }
}

/// The two convolutions of each stored file that read 16 channels run on these kernels. Outputs are
/// at most `steps` steps of their numbers from ONNX Runtime's. The layers around them compute with
/// the device's floats. One step of a pooled number there is up to three steps of the output.
pub(crate) fn joined_files_agree<D: Operators>(device: &D, steps: f64) {
    for (name, file) in FILES {
        let model = Model::from_onnx(file, name).read().unwrap();
        let planned = model.tensors().unwrap().steps_on(device);
        let names: Vec<_> = planned.iter().map(|step| step.op.name()).collect();
        let joined = names.iter().filter(|name| **name == "eight").count();
        assert_eq!(joined, 2, "{name}: {names:?}");
        file_agrees(device, name, &model, steps);
    }
}

fn agrees<D: Operators>(device: &D, format: Format, channels: i64, tolerance: f32) {
    let model = Model::from_onnx(&network(format, channels), "made").images_only().read().unwrap();
    let values = INPUT.iter().product::<i64>() as usize;
    let input = |seed| -> Vec<f32> {
        let eighths = |x: &f32| (x * 8.0).round() / 8.0;
        Seeded(seed).input(values).iter().map(eighths).collect()
    };
    let cpu = Cpu::open(0, "units=1").unwrap();
    let found = model.calibrate(&cpu, format, 100.0, [input(1), input(2)]).unwrap();
    let model = model.with_scales(&in_powers_of_two(&found)).unwrap();
    let planned = model.image_on(device).unwrap();
    assert_eq!(quantized_steps(&planned), 6, "convolutions, and the pool between them");
    let network = model.load(device).unwrap();
    let (_, params) = model.image().unwrap();
    for seed in 1..5 {
        network.stage_input(&input(seed)).unwrap();
        run_alone(device, &network.inference());
        let want = reference::execute(&planned, params, &input(seed)).unwrap();
        let what = format!("{}, {channels} channels, image {seed}", format.name());
        are_close(&network.staged_output().unwrap(), &want, tolerance, &what);
    }
}

/// Scales that are powers of two, none of them smaller.
fn in_powers_of_two(scales: &Scales) -> Scales {
    let largest = f64::from(scales.format().largest());
    let mut file: Value = serde_json::from_str(&scales.to_json().unwrap()).unwrap();
    for value in file["largest"].as_object_mut().unwrap().values_mut() {
        let scale = (value.as_f64().unwrap() / largest).log2().ceil().exp2();
        *value = json!(scale * largest);
    }
    Scales::from_json(&file.to_string(), "made").unwrap()
}

/// Each output's largest weight is a power of two times the largest number.
fn network(format: Format, channels: i64) -> Vec<u8> {
    let (most, unit) = match format {
        Format::Int8 => (127, 1.0 / 128.0),
        Format::Fp8 => (14, 1.0 / 16.0), // 14 is 448 / 32
    };
    let weights = |name, dims: [i64; 4], unit: f32| {
        let each = dims[1..].iter().product::<i64>();
        let number = move |at: i64| match at % each {
            0 => most,
            other => (other * 37 + at / each * 11) % (2 * most + 1) - most,
        };
        let whole = singles(name, &dims, move |at| number(at) as f32 * unit);
        let biases = format!("{name}b");
        [whole, singles(&biases, &dims[..1], |at| (at % 9 - 4) as f32 / 4.0)].concat()
    };
    let conv = |from, name: &str, to, pads: &[i64]| {
        node("Conv", &[from, name, &format!("{name}b")], to, &[ints("pads", pads)])
    };
    let (around, none) = ([1; 4], [0; 4]);
    let window = [ints("kernel_shape", &[3, 3]), ints("pads", &around)];
    let steps = [
        conv("x", "w1", "c1", &around),
        node("Relu", &["c1"], "r1", &[]),
        node("MaxPool", &["r1"], "p", &window),
        conv("p", "w2", "d", &none),
        conv("d", "w3", "c3", &around),
        node("Relu", &["c3"], "r3", &[]),
        conv("r3", "w4", "c4", &none),
        node("Add", &["c4", "d"], "s", &[]),
        node("Relu", &["s"], "e", &[]),
        conv("e", "w5", "f", &none),
        node("GlobalAveragePool", &["f"], "y", &[]),
        weights("w1", [32, 16, 3, 3], unit),
        weights("w2", [channels, 32, 1, 1], unit),
        weights("w3", [64, channels, 3, 3], unit),
        weights("w4", [channels, 64, 1, 1], unit),
        weights("w5", [8, channels, 1, 1], unit / 128.0), // halves hold what it makes
        value(11, "x", &INPUT),
        value(12, "y", &[]),
    ];
    file(17, &steps)
}
