//! Operators at their edges: infinite numbers and NaN, sizes of 0 and 1. Expected numbers are those
//! of ONNX Runtime.

use super::{assert_near, network, numbers};
use crate::handmade::{int, node, open};

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
