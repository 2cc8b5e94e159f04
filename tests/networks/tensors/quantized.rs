//! Networks of numbers of 8 bits as ONNX Runtime writes them, on any device.

use crate::subject::run_alone;
use reef::models::Model;
use reef::op::Operators;
use reef::tensor::Array;
use serde_json::Value;

/// Images, and ONNX Runtime's outputs for them.
const CASES: &str = include_str!("../../../reef-models/tests/onnx_quantized/cases.json");

pub(crate) const FILES: [(&str, &[u8]); 5] = [
    ("operators", include_bytes!("../../../reef-models/tests/onnx_quantized/operators.onnx")),
    ("per_channel", include_bytes!("../../../reef-models/tests/onnx_quantized/per_channel.onnx")),
    ("per_tensor", include_bytes!("../../../reef-models/tests/onnx_quantized/per_tensor.onnx")),
    ("symmetric", include_bytes!("../../../reef-models/tests/onnx_quantized/symmetric.onnx")),
    ("unsigned", include_bytes!("../../../reef-models/tests/onnx_quantized/unsigned.onnx")),
];

/// Outputs are at most `steps` steps of their numbers of 8 bits from ONNX Runtime's, and the top
/// class is that of the image.
pub(crate) fn quantized_files_agree<D: Operators>(device: &D, steps: f64) {
    for (name, file) in FILES {
        let model = Model::from_onnx(file, name).read().unwrap();
        file_agrees(device, name, &model, steps);
    }
}

/// As [`quantized_files_agree`], of one file.
pub(crate) fn file_agrees<D: Operators>(device: &D, name: &str, model: &Model, steps: f64) {
    let cases: Value = serde_json::from_str(CASES).unwrap();
    let (images, kinds) = (numbers(&cases["images"]), numbers(&cases["kinds"]));
    let case = &cases["files"][name];
    let (step, outputs) = (case["step"].as_f64().unwrap(), numbers(&case["outputs"]));
    let classes = outputs.len() / kinds.len();
    let network = model.load(device).unwrap();
    let each = images.chunks(images.len() / kinds.len()).zip(outputs.chunks(classes));
    for (k, (image, want)) in each.enumerate() {
        let image = Array::F32(image.iter().map(|&value| value as f32).collect());
        network.stage(0, &image).unwrap();
        run_alone(device, &network.inference());
        let made = network.output(0).unwrap().values().to_f64();
        assert_eq!(made.len(), classes, "{name}");
        let off = made.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        println!("{name}, image {k}: off by {:.2} steps", off / step);
        assert!(off <= steps * step * 1.001, "{name}, image {k}: {made:?}, wanted {want:?}");
        let top = (0..classes).max_by(|&a, &b| made[a].total_cmp(&made[b])).unwrap();
        assert_eq!(top, kinds[k] as usize, "{name}, image {k}: {made:?}");
    }
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}
