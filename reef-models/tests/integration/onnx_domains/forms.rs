//! Kernels of operators, for images or for tensors, and their number of steps.

use super::{doubles, network, numbers};
use crate::handmade::{file, node, node_of, open, singles, typed, value};
use reef_models::Model;
use reef_op::tensor::Array;

const FLOAT: i64 = 1;

#[test]
fn largest_of_many_numbers_is_found_by_more_than_one_block() {
    // A thread of a GPU would have hundreds of these numbers, and all other blocks none.
    let parts = [value(11, "x", &[2, 64, 128]), node("ReduceMax", &["x"], "y", &[])];
    let network = network(&[&parts[..], &[open(12, "y", FLOAT, &["1"])]].concat(), &[]).unwrap();
    assert_eq!(network.steps().len(), 2, "of the longest axis, and of the others");
    for (at, nan) in [(0, false), (9_000, false), (2 * 64 * 128 - 1, false), (4_321, true)] {
        let mut x = vec![-1.0f32; 2 * 64 * 128];
        x[at] = if nan { f32::NAN } else { 3.0 };
        let made = doubles(&network.execute(&[Array::F32(x)]).unwrap()[0]);
        assert!(made.len() == 1 && if nan { made[0].is_nan() } else { made[0] == 3.0 }, "{made:?}");
    }
}

#[test]
fn values_of_the_largest_are_those_at_their_places() {
    let parts = [
        value(11, "x", &[2, 4]),
        numbers("k", &[3]),
        node_of("TopK", &["x", "k"], &["v", "i"], &[]),
        value(12, "v", &[2, 3]),
        typed(12, "i", 7, &[2, 3]),
    ];
    let made = network(&parts, &[]).unwrap();
    let x = vec![1.0, f32::NAN, 2.0, 2.0, -0.0, 0.0, f32::INFINITY, -1.0];
    let made = made.execute(&[Array::F32(x)]).unwrap();
    let values = doubles(&made[0]);
    assert!(values[0].is_nan());
    assert_eq!(values[1..], [2.0, 2.0, f64::INFINITY, 0.0, 0.0]);
    assert_eq!(doubles(&made[1]), [1.0, 2.0, 3.0, 2.0, 0.0, 1.0]);
}

#[test]
fn network_without_convolutions_has_no_kernels_for_images() {
    let file = |op: &[Vec<u8>]| {
        let parts = [value(11, "x", &[1, 4, 8, 8]), value(12, "y", &[1, 4, 1, 1])];
        file(17, &[&parts[..], op].concat())
    };
    let mean = |from| node("GlobalAveragePool", &[from], "y", &[]);
    let weights = singles("w", &[4, 4, 1, 1], |_| 1.0);
    let conv = node("Conv", &["x", "w"], "z", &[]);
    for (parts, is_image) in [(vec![mean("x")], false), (vec![weights, conv, mean("z")], true)] {
        let read = Model::from_onnx(&file(&parts), "made").read().unwrap();
        assert_eq!(read.image().is_ok(), is_image);
    }
}
