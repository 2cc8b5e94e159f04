//! Files as exporters and optimizers write them give what ONNX Runtime gives.
//! `tools/onnx_runtime.py` writes them.

use reef_models::{Extent, Model};
use reef_op::tensor::{Array, Element};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Inputs of a case, and ONNX Runtime's outputs.
#[derive(serde::Deserialize)]
struct Case {
    inputs: BTreeMap<String, Tensor>,
    outputs: Vec<Tensor>,
}

#[derive(serde::Deserialize)]
struct Tensor {
    element: String,
    dims: Vec<usize>,
    values: Vec<serde_json::Number>,
}

impl Tensor {
    fn array(&self) -> Array {
        let real = || self.values.iter().map(|value| value.as_f64().unwrap());
        let whole = || self.values.iter().map(|value| value.as_i64().unwrap());
        match &*self.element {
            "float32" => Array::F32(real().map(|value| value as f32).collect()),
            "float16" => {
                let bytes = whole().flat_map(|bits| (bits as u16).to_le_bytes());
                Array::from_le_bytes(Element::F16, &bytes.collect::<Vec<_>>())
            }
            "int64" => Array::I64(whole().collect()),
            "int32" => Array::I32(whole().map(|value| value as i32).collect()),
            "uint8" => Array::U8(whole().map(|value| value as u8).collect()),
            "bool" => {
                Array::from_le_bytes(Element::Bool, &whole().map(|v| v as u8).collect::<Vec<_>>())
            }
            other => panic!("{other}"),
        }
    }

    /// Asserts that `got` has its values: floats nearly, numbers of 8 bits within a step.
    fn assert_near(&self, got: &Array, place: &str) {
        let most = match &*self.element {
            "float32" => 1e-4,
            "float16" => 2e-3,
            "uint8" => 1.0,
            _ => 0.0,
        };
        let (got, want) = (got.values().to_f64(), self.array().values().to_f64());
        let near = |(x, y): (&f64, &f64)| (x - y).abs() <= most;
        let is_near = got.len() == want.len() && got.iter().zip(&want).all(near);
        assert!(is_near, "{place}: {got:?}, wanted {want:?}");
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx_runtime");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|f| f.extension().is_some_and(|e| e == "onnx")).collect();
    files.sort();
    files
}

#[test]
fn files_of_exporters_give_onnx_runtimes_outputs() {
    let files = files();
    for file in &files {
        let place = file.display().to_string();
        let case = std::fs::read_to_string(file.with_extension("json")).unwrap();
        let case: Case = serde_json::from_str(&case).unwrap();
        let model = Model::open(file).read().unwrap_or_else(|why| panic!("{why}"));
        let network = model.tensors().unwrap_or_else(|| panic!("{place}: no network of tensors"));
        let inputs: Vec<_> =
            network.inputs.iter().map(|port| case.inputs[&port.name].array()).collect();
        let made = network.execute(&inputs).unwrap();
        assert_eq!(made.len(), case.outputs.len(), "{place}");
        for ((want, got), port) in case.outputs.iter().zip(&made).zip(&network.outputs) {
            let place = format!("{place}: {}", port.name);
            let mut dims = port.spec.dims.clone();
            if let Extent::Bounded { axis, .. } = port.extent {
                assert!(want.dims[axis] <= dims[axis], "{place}");
                dims[axis] = want.dims[axis];
            }
            assert_eq!(dims, want.dims, "{place}");
            want.assert_near(got, &place);
        }
    }
    assert_eq!(files.len(), 104);
}
