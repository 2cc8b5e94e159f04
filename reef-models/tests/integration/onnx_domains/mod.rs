//! Operators of other domains than ONNX's own, numbers of few bits, branches and open sizes, in
//! files as other programs write them. Expected numbers are ONNX Runtime's, or computed by hand.

#![cfg(feature = "onnx")]

mod attention;
mod boxes;
mod branches;
mod columns;
mod edges;
mod forms;
mod microsoft;
mod quantized;
mod ranges;
mod real_rows;
mod repeats;
mod runtime;
mod selections;
mod sizes;
mod texts;
mod trees;

use crate::handmade::{file, stored};
use reef_models::Model;
use reef_models::kinds::TensorModel;
use reef_op::tensor::Array;

/// The network of these parts of a graph, for shapes of inputs.
fn network(graph: &[Vec<u8>], shapes: &[(&str, &[usize])]) -> Result<TensorModel, String> {
    let shapes = shapes.iter().map(|&(name, dims)| (name.to_owned(), dims.to_vec()));
    let bytes = file(21, graph);
    let read = Model::from_onnx(&bytes, "made").tensors_only().shapes(shapes).read();
    read.map(|model| model.tensors().unwrap().clone()).map_err(|error| error.to_string())
}

/// Outputs of a network for one input `x`.
fn outputs(graph: &[Vec<u8>], dims: &[usize], x: Array) -> Vec<Array> {
    let network = network(graph, &[("x", dims)]).unwrap_or_else(|why| panic!("{why}"));
    network.execute(&[x]).unwrap()
}

/// A stored list of integers.
fn numbers(name: &str, list: &[i64]) -> Vec<u8> {
    let raw: Vec<u8> = list.iter().flat_map(|number| number.to_le_bytes()).collect();
    stored(name, 7, &[list.len() as i64], &raw)
}

fn doubles(array: &Array) -> Vec<f64> {
    array.values().to_f64()
}

/// Asserts that all numbers are within a few units in the last place of singles; NaN is NaN.
#[track_caller]
fn assert_near(got: &Array, want: &[f64]) {
    let got = doubles(got);
    let near = |(x, y): (&f64, &f64)| {
        let is_close = y.is_finite() && (x - y).abs() <= 1e-4 * (1.0 + y.abs());
        x == y || x.is_nan() && y.is_nan() || is_close
    };
    assert!(got.len() == want.len() && got.iter().zip(want).all(near), "{got:?}, wanted {want:?}");
}
