//! Operators at their edges: infinite numbers and NaN, sizes of 0 and 1. Expected numbers are those
//! of ONNX Runtime.

use super::{assert_near, network, numbers};
use crate::handmade::{int, node, open, typed, value};

const FLOAT: i64 = 1;

#[test]
fn window_of_one_element_is_that_of_onnx_runtime() {
    let nan = f64::NAN;
    for (op, periodic) in
        [("HannWindow", 0.0), ("HammingWindow", 4.0 / 46.0), ("BlackmanWindow", 0.0)]
    {
        for (is_periodic, want) in [(1, periodic), (0, nan)] {
            let window = node(op, &["n"], "y", &[int("periodic", is_periodic)]);
            let parts = [numbers("n", &[1]), window, open(12, "y", FLOAT, &["1"])];
            assert_near(&network(&parts, &[]).unwrap().execute(&[]).unwrap()[0], &[want]);
        }
    }
}

#[test]
fn operators_of_floats_refuse_integers() {
    let say = |op: &str, inputs: &[&str], dims: &[i64]| {
        let others = [value(11, "others", &[1, 2, 2, 2]), numbers("batch", &[0])];
        let regions = value(11, "regions", &[1, 4]);
        let parts = [typed(11, "x", 6, dims), node(op, inputs, "y", &[]), open(12, "y", 6, &[])];
        network(&[&parts[..], &others, &[regions]].concat(), &[]).unwrap_err()
    };
    for (said, got) in [
        (say("DFT", &["x"], &[1, 4, 1]), "int32[1, 4, 1]"),
        (say("RoiAlign", &["x", "regions", "batch"], &[1, 1, 2, 2]), "int32[1, 1, 2, 2]"),
        (say("GridSample", &["x", "others"], &[1, 1, 2, 2]), "int32[1, 1, 2, 2]"),
    ] {
        assert!(said.ends_with(&format!("an operand must have floats, got {got}")), "{said}");
    }
}
