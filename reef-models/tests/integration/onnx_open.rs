//! ONNX files by `open`: which kind of network they become.

#![cfg(feature = "onnx")]

use crate::handmade::{file, node, value};
use reef_core::tensor::Array;
use reef_models::Model;
use reef_models::kinds::reference;

/// Means of three planes of 4 × 4, and what the file says of its output.
fn means(declared: &[i64]) -> Model {
    let name = format!("reef-open-{}-{declared:?}.onnx", std::process::id());
    let path = std::env::temp_dir().join(name.replace([' ', ',', '[', ']'], "_"));
    let pool = node("GlobalAveragePool", &["x"], "y", &[]);
    let ends = [value(11, "x", &[1, 3, 4, 4]), value(12, "y", declared)];
    std::fs::write(&path, file(17, &[&[pool][..], &ends].concat())).unwrap();
    let model = Model::open(&path).read();
    std::fs::remove_file(&path).unwrap();
    model.unwrap()
}

#[test]
fn declared_output_of_several_rows_makes_a_network_of_tensors() {
    let input: Vec<f32> = (0..48).map(|k| k as f32).collect();
    let want = [7.5, 23.5, 39.5];
    for declared in [&[1, 3, 1, 1][..], &[]] {
        let model = means(declared);
        let (image, tensors) = model.image().unwrap();
        assert_eq!(reference::execute(image, tensors, &input).unwrap(), want);
    }
    // Wrong, but what is computed is the same.
    let model = means(&[1, 3, 4, 4]);
    let made =
        model.tensors().expect("a network of tensors").execute(&[Array::F32(input)]).unwrap();
    assert_eq!(made, [Array::F32(want.to_vec())]);
}
