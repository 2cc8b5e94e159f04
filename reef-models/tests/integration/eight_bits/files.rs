//! Files that ONNX Runtime's `quantize_static` wrote give what ONNX Runtime gives for them.
//! `tools/onnx_quantized.py` makes them.

use reef_models::Model;
use reef_op::tensor::Array;
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
}

#[derive(serde::Deserialize)]
struct Case {
    /// Scale of the numbers of 8 bits that become the outputs.
    step: f64,
    outputs: Vec<f64>,
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
    let text = std::fs::read_to_string(folder().join("cases.json")).unwrap();
    let cases: Cases = serde_json::from_str(&text).unwrap();
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
