//! Operators at their edges: infinite numbers and NaN, sizes of 0 and 1. Expected numbers are those
//! of ONNX Runtime.

use super::{assert_near, doubles, network, numbers};
use crate::handmade::{
    file, float, int, ints, node, node_in, node_of, ones, open, singles, stored, text, typed, value,
};
use reef_models::Model;
use reef_op::tensor::{Array, Element};

const FLOAT: i64 = 1;
const INFINITE: f64 = f64::INFINITY;

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
fn batch_in_training_mode_has_its_own_statistics() {
    let (results, operands) = (["y", "mean", "variance"], ["x", "s", "b", "m", "v"]);
    let attributes = [int("training_mode", 1), float("momentum", 0.5)];
    let one = |name: &str, number: f32| singles(name, &[1], |_| number);
    let parts = [
        node_of("BatchNormalization", &operands, &results, &attributes),
        one("s", 2.0),
        one("b", 1.0),
        one("m", 10.0),
        one("v", 20.0),
        value(11, "x", &[2, 1, 2]),
        value(12, "y", &[2, 1, 2]),
        value(12, "mean", &[1]),
        value(12, "variance", &[1]),
    ];
    let network = network(&parts, &[]).unwrap();
    let made = network.execute(&[Array::F32(vec![1.0, 3.0, 5.0, 7.0])]).unwrap();
    let step = 2.0 / 5f64.sqrt();
    assert_near(&made[0], &[-3.0, -1.0, 1.0, 3.0].map(|x: f64| 1.0 + step * x));
    assert_near(&made[1], &[7.0]);
    assert_near(&made[2], &[12.5]);
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

/// Bins of regions of `x`, each as many samples as it is long or one.
fn regions(dims: &[i64], x: Vec<f32>, regions: &[[f32; 4]], of: &[i64], more: &[Vec<u8>]) -> Array {
    let corners = regions.concat();
    let parts = [
        value(11, "x", dims),
        singles("regions", &[of.len() as i64, 4], |k| corners[k as usize]),
        numbers("batch", of),
        node("RoiAlign", &["x", "regions", "batch"], "y", more),
        open(12, "y", FLOAT, &[]),
    ];
    network(&parts, &[]).unwrap().execute(&[Array::F32(x)]).unwrap().remove(0)
}

#[test]
fn infinite_elements_outside_of_a_bin_do_not_change_it() {
    let (nan, size) = (f64::NAN, [int("output_height", 2), int("output_width", 2)]);
    let mut x: Vec<f32> = (0..36).map(|k| k as f32).collect();
    (x[3], x[30], x[35]) = (f32::NAN, f32::NEG_INFINITY, f32::INFINITY);
    let corners = [[0.3, 0.3, 2.7, 2.1], [1.0, 1.0, 4.9, 4.7], [0.25, 3.3, 5.25, 5.3]];
    let made = regions(&[1, 1, 6, 6], x, &corners, &[0, 0, 0], &size);
    let want = [1.9, 3.1, 7.3, 8.5, 10.025, nan, 21.125, 23.075, 20.8, 23.3, -INFINITE, INFINITE];
    assert_near(&made, &want);
    // Each channel of each batch has its own.
    let mut x: Vec<f32> = [0, 1].iter().flat_map(|_| 0..16).map(|k| k as f32).collect();
    x.extend((100..132).map(|k| if k < 116 { k as f32 } else { 116.0 - k as f32 }));
    (x[0], x[63]) = (f32::NAN, f32::INFINITY);
    let corners = [[0.8, 0.8, 3.1, 3.1], [0.3, 0.3, 2.2, 2.2]];
    let made = regions(&[2, 2, 4, 4], x, &corners, &[1, 0], &size[1..]);
    let want = [106.675, 107.825, -6.675, INFINITE, nan, 4.225, 3.275, 4.225];
    assert_near(&made, &want);
}

/// The samples of the second row lie at 5.0, where the tensor ends. A last bit more, and they would
/// be outside.
#[test]
fn sample_at_the_edge_of_a_tensor_is_inside() {
    let more = [
        int("sampling_ratio", 1),
        int("output_height", 2),
        int("output_width", 3),
        float("spatial_scale", 0.8),
        text("coordinate_transformation_mode", "output_half_pixel"),
    ];
    let corners = [[-2.0, -2.0, 8.0, 9.0]];
    let made = regions(&[1, 1, 5, 6], vec![1.0; 30], &corners, &[0], &more);
    assert_near(&made, &[1.0; 6]);
}

#[test]
fn region_outside_of_a_tensor_reads_nothing() {
    let x = vec![1.0, 1.0, 1.0, f32::INFINITY];
    for samples in [0, 1] {
        let more = [int("sampling_ratio", samples)];
        let made = regions(&[1, 1, 2, 2], x.clone(), &[[10.0, 10.0, 12.0, 12.0]], &[0], &more);
        assert_near(&made, &[0.0]);
    }
}

#[test]
fn place_outside_of_a_tensor_reads_nothing() {
    for (mode, want) in [
        ("linear", [0.0, 0.0, 0.36, INFINITE]),
        ("nearest", [0.0, 0.0, 1.0, 1.0]),
        ("cubic", [0.0, 0.0, -INFINITE, INFINITE]),
    ] {
        let parts = [
            value(11, "x", &[1, 1, 2, 2]),
            value(11, "grid", &[1, 1, 4, 2]),
            node("GridSample", &["x", "grid"], "y", &[text("mode", mode)]),
            open(12, "y", FLOAT, &[]),
        ];
        let x = vec![1.0, 2.0, f32::INFINITY, 4.0];
        let grid = vec![3.0, 0.0, 0.2, 3.0, -0.9, -0.9, -0.6, -0.3];
        let network = network(&parts, &[]).unwrap();
        assert_near(&network.execute(&[Array::F32(x), Array::F32(grid)]).unwrap()[0], &want);
    }
}

#[test]
fn summand_with_a_factor_of_0_is_not_read() {
    let parts = [
        value(11, "x", &[1, 2]),
        ones("w", &[2, 1]),
        singles("c", &[1], |_| f32::INFINITY),
        node("Gemm", &["x", "w", "c"], "y", &[float("beta", 0.0)]),
        open(12, "y", FLOAT, &[]),
    ];
    let made = network(&parts, &[]).unwrap().execute(&[Array::F32(vec![1.0, 2.0])]).unwrap();
    assert_eq!(doubles(&made[0]), [3.0]);
}

#[test]
fn part_that_starts_before_the_first_row_goes_back_from_it() {
    for (rows, start, want) in
        [(3, -10, vec![1.0]), (3, -3, vec![1.0]), (3, 9, vec![3.0, 2.0, 1.0]), (0, -10, vec![])]
    {
        let parts = [
            value(11, "x", &[rows]),
            numbers("starts", &[start]),
            numbers("ends", &[-100]),
            numbers("axes", &[0]),
            numbers("steps", &[-1]),
            node("Slice", &["x", "starts", "ends", "axes", "steps"], "y", &[]),
            open(12, "y", FLOAT, &[]),
        ];
        let x = Array::F32((1..=rows).map(|k| k as f32).collect());
        let made = network(&parts, &[]).unwrap().execute(&[x]).unwrap();
        assert_eq!(doubles(&made[0]), want, "from {start} of {rows}");
    }
}

/// The fraction is dropped.
#[test]
fn integers_are_resized_as_floats() {
    let parts = [
        typed(11, "x", 2, &[1, 1, 2, 2]),
        singles("scales", &[4], |k| if k < 2 { 1.0 } else { 2.0 }),
        node("Resize", &["x", "", "scales"], "y", &[text("mode", "linear")]),
        open(12, "y", 2, &[]),
    ];
    let made = network(&parts, &[]).unwrap().execute(&[Array::U8(vec![0, 255, 7, 100])]).unwrap();
    let want = vec![0, 63, 191, 255, 1, 55, 162, 216, 5, 38, 105, 138, 7, 30, 76, 100];
    assert_eq!(made[0], Array::U8(want));
}

/// Their sums are beyond the largest half.
#[test]
fn sums_of_halves_are_wider() {
    let made = |op: &str, number: f64, width: i64, attributes: &[Vec<u8>]| {
        let parts = [
            typed(11, "x", 10, &[1, 1, 1, width]),
            node(op, &["x"], "y", attributes),
            open(12, "y", 10, &[]),
        ];
        let x = Array::from_f64(Element::F16, (0..width).map(|_| number));
        network(&parts, &[]).unwrap().execute(&[x]).unwrap().remove(0)
    };
    assert_near(&made("GlobalAveragePool", 30.0, 4096, &[]), &[30.0]);
    assert_near(&made("GlobalLpPool", 300.0, 2, &[]), &[424.25]);
    let window = [ints("kernel_shape", &[1, 2])];
    assert_near(&made("LpPool", 300.0, 2, &window), &[424.25]);
    let half = 0.707_031_25;
    assert_near(&made("LpNormalization", 300.0, 2, &[]), &[half, half]);
    assert_near(&made("LRN", 300.0, 1, &[int("size", 1)]), &[53.343_75]);
}

#[test]
fn padding_repeats_what_is_left_of_a_cut_tensor() {
    for (mode, want) in [
        ("wrap", [1.0, 2.0, 3.0, 1.0, 2.0]),
        ("reflect", [1.0, 2.0, 3.0, 2.0, 1.0]),
        ("edge", [1.0, 2.0, 3.0, 3.0, 3.0]),
    ] {
        let parts = [
            value(11, "x", &[4]),
            numbers("pads", &[-1, 2]),
            node("Pad", &["x", "pads"], "y", &[text("mode", mode)]),
            open(12, "y", FLOAT, &[]),
        ];
        let x = Array::F32(vec![0.0, 1.0, 2.0, 3.0]);
        let made = network(&parts, &[]).unwrap().execute(&[x]).unwrap();
        assert_eq!(doubles(&made[0]), want, "{mode}");
    }
}

#[test]
fn squeeze_of_no_axes_is_that_of_all_of_one_element() {
    let parts = [
        value(11, "x", &[1, 3, 1]),
        numbers("axes", &[]),
        node("Squeeze", &["x", "axes"], "y", &[]),
        open(12, "y", FLOAT, &[]),
    ];
    assert_eq!(network(&parts, &[]).unwrap().outputs[0].spec.dims, [3]);
}

#[test]
fn sequences_of_no_batches_are_reversed_to_nothing() {
    let parts = [
        value(11, "x", &[4, 0]),
        numbers("lengths", &[]),
        node("ReverseSequence", &["x", "lengths"], "y", &[]),
        open(12, "y", FLOAT, &[]),
    ];
    assert_eq!(network(&parts, &[]).unwrap().outputs[0].spec.dims, [4, 0]);
}

/// The only window starts behind the last element.
#[test]
fn pool_of_padding_alone_gives_nothing() {
    for op in ["MaxPool", "AveragePool", "LpPool"] {
        for (len, pads) in [(0, [0, 1]), (2, [-2, 1])] {
            let attributes = [ints("kernel_shape", &[1]), ints("pads", &pads), int("ceil_mode", 1)];
            let parts = [
                value(11, "x", &[1, 1, len]),
                node(op, &["x"], "y", &attributes),
                open(12, "y", FLOAT, &[]),
            ];
            let made = network(&parts, &[]).unwrap();
            assert_eq!(made.outputs[0].spec.dims, [1, 1, 0], "{op} of {len} with {pads:?}");
        }
    }
}

#[test]
fn padding_of_nothing_is_all_padding() {
    let parts = [
        value(11, "x", &[0, 2]),
        numbers("pads", &[1, 0, 1, 0]),
        singles("fill", &[], |_| 3.0),
        node("Pad", &["x", "pads", "fill"], "y", &[]),
        open(12, "y", FLOAT, &[]),
    ];
    let network = network(&parts, &[]).unwrap();
    assert_eq!(network.outputs[0].spec.dims, [2, 2]);
    assert_eq!(doubles(&network.execute(&[Array::F32(vec![])]).unwrap()[0]), [3.0; 4]);
}

#[test]
fn place_of_the_largest_is_never_on_padding() {
    let window = [ints("kernel_shape", &[2]), ints("pads", &[1, 1])];
    let places = |element: i64, x: Array| {
        let parts = [
            typed(11, "x", element, &[1, 1, 3]),
            node_of("MaxPool", &["x"], &["most", "places"], &window),
            open(12, "places", 7, &[]),
        ];
        doubles(&network(&parts, &[]).unwrap().execute(&[x]).unwrap()[0])
    };
    assert_eq!(places(FLOAT, Array::F32(vec![f32::NEG_INFINITY; 3])), [0.0, 0.0, 1.0, 2.0]);
    assert_eq!(places(3, Array::I8(vec![-128, -128, 1])), [0.0, 0.0, 2.0, 2.0]);
}

#[test]
fn infinite_element_that_is_resized_stays_where_it_is() {
    let resized = |x: &[f32], to: i64, more: &[Vec<u8>]| {
        let parts = [
            value(11, "x", &[1, 1, 1, x.len() as i64]),
            numbers("sizes", &[1, 1, 1, to]),
            node("Resize", &["x", "", "", "sizes"], "y", more),
            open(12, "y", FLOAT, &[]),
        ];
        network(&parts, &[]).unwrap().execute(&[Array::F32(x.to_vec())]).unwrap().remove(0)
    };
    let linear = [text("mode", "linear")];
    let made = resized(&[1.0, 2.0, 4.0, f32::INFINITY], 8, &linear);
    assert_near(&made, &[1.0, 1.25, 1.75, 2.5, 3.5, INFINITE, INFINITE, INFINITE]);
    let made = resized(&[1.0, 2.0, 3.0, 4.0, 5.0, f32::NEG_INFINITY], 4, &linear);
    assert_near(&made, &[1.25, 2.75, 4.25, -INFINITE]);
    let made = resized(&[1.0, 2.0, 4.0, f32::INFINITY], 8, &[text("mode", "cubic")]);
    assert_near(&Array::F64(doubles(&made)[..3].to_vec()), &[0.894_531_25, 1.156_25, 1.5625]);
    assert!(doubles(&made)[3..].iter().all(|x| !x.is_finite()), "{made:?}");
}

#[test]
fn ignored_target_of_an_infinite_loss_counts_nothing() {
    for (target, ignored) in [([-100, 1], -100), ([0, 1], 0)] {
        for (reduction, want) in [("none", vec![0.0, 2.0]), ("mean", vec![2.0]), ("sum", vec![2.0])]
        {
            let more = [int("ignore_index", ignored), text("reduction", reduction)];
            let parts = [
                value(11, "x", &[2, 3]),
                numbers("target", &target),
                node("NegativeLogLikelihoodLoss", &["x", "target"], "y", &more),
                open(12, "y", FLOAT, &[]),
            ];
            let x = Array::F32(vec![f32::NEG_INFINITY, 0.0, -1.0, -1.0, -2.0, -3.0]);
            assert_near(&network(&parts, &[]).unwrap().execute(&[x]).unwrap()[0], &want);
        }
    }
}

#[test]
fn loss_of_scores_without_classes_is_refused() {
    for dims in [&[3][..], &[]] {
        let parts = [
            value(11, "x", dims),
            numbers("target", &[0]),
            node("SoftmaxCrossEntropyLoss", &["x", "target"], "y", &[]),
            open(12, "y", FLOAT, &[]),
        ];
        let said = network(&parts, &[]).unwrap_err();
        let want = format!("scores must be of rows and classes, got float32{dims:?}");
        assert!(said.ends_with(&want), "{said}");
    }
}

/// A row of `from` elements, each its place, in another size by a node of this operator set.
fn resized(opset: i64, from: usize, inputs: &[&str], more: &[Vec<u8>]) -> Vec<f64> {
    let list = |name: &str, numbers: &[f32]| {
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        stored(name, 1, &[numbers.len() as i64], &raw)
    };
    let graph = [
        node("Resize", inputs, "y", more),
        list("part", &[0.0; 2]),
        list("two", &[2.0]),
        list("less", &[0.6]),
        value(11, "x", &[from as i64]),
        value(12, "y", &[]),
    ];
    let read = Model::from_onnx(&file(opset, &graph), "made").tensors_only().read().unwrap();
    let x = Array::F32((0..from).map(|k| k as f32).collect());
    doubles(&read.tensors().unwrap().execute(&[x]).unwrap()[0])
}

/// Older exporters write zeros for the part that only one mode reads.
#[test]
fn part_is_read_by_the_mode_that_cuts_alone() {
    assert_eq!(resized(13, 2, &["x", "part", "two"], &[]), [0.0, 0.0, 1.0, 1.0]);
}

#[test]
fn nearest_elements_are_those_of_tensorflow_where_said() {
    let pixels = text("coordinate_transformation_mode", "tf_half_pixel_for_nn");
    let down = text("nearest_mode", "floor");
    // Places 0.5 / 0.6 and 1.5 / 0.6.
    assert_eq!(resized(11, 4, &["x", "", "less"], &[pixels, down]), [0.0, 2.0]);
}

/// Place 1 / 0.6 of operator set 10 is that of element 2, as in ONNX Runtime.
#[test]
fn shrinking_axes_of_old_files_take_the_next_element() {
    assert_eq!(resized(10, 4, &["x", "less"], &[]), [0.0, 2.0]);
    assert_eq!(resized(10, 2, &["x", "two"], &[]), [0.0, 0.0, 1.0, 1.0]);
}

/// In double precision the third of four elements of 14 would be 7, as its place is 7 exactly.
#[test]
fn places_of_nearest_elements_have_single_precision() {
    let made = |from: i64, to: i64, coordinates: &str, near: &str| {
        let modes =
            [text("coordinate_transformation_mode", coordinates), text("nearest_mode", near)];
        let graph = [
            node("Resize", &["x", "part", "", "sizes"], "y", &modes),
            singles("part", &[2], |k| [0.2, 1.2][k as usize]),
            numbers("sizes", &[to]),
            value(11, "x", &[from]),
            value(12, "y", &[]),
        ];
        let x = Array::F32((0..from).map(|k| k as f32).collect());
        doubles(&network(&graph, &[]).unwrap().execute(&[x]).unwrap()[0])
    };
    assert_eq!(made(14, 4, "asymmetric", "floor"), [0.0, 3.0, 6.0, 10.0]);
    let want = [0.0, 0.0, 1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 6.0];
    assert_eq!(made(7, 9, "half_pixel", "floor"), want);
    assert_eq!(made(6, 4, "tf_crop_and_resize", "ceil"), [1.0, 3.0, 5.0, 0.0]);
    // Half-way between two elements.
    assert_eq!(made(6, 5, "half_pixel", "round_prefer_floor"), [0.0, 1.0, 2.0, 4.0, 5.0]);
    assert_eq!(made(6, 1, "half_pixel", "round_prefer_ceil"), [3.0]);
    assert_eq!(made(3, 2, "asymmetric", "round_prefer_ceil"), [0.0, 2.0]);
}

/// ONNX Runtime adds no elements for `auto_pad`, and those of `output_shape` behind the last one.
#[test]
fn filter_shorter_than_its_stride_keeps_the_first_element() {
    let made = |more: &[Vec<u8>]| {
        let parts = [
            value(11, "x", &[1, 1, 2]),
            ones("w", &[1, 1, 1]),
            node("ConvTranspose", &["x", "w"], "y", &[&[ints("strides", &[3])], more].concat()),
            open(12, "y", FLOAT, &[]),
        ];
        let x = Array::F32(vec![1.0, 2.0]);
        doubles(&network(&parts, &[]).unwrap().execute(&[x]).unwrap()[0])
    };
    for auto in ["SAME_UPPER", "SAME_LOWER", "VALID"] {
        assert_eq!(made(&[text("auto_pad", auto)]), [1.0, 0.0, 0.0, 2.0], "{auto}");
    }
    assert_eq!(made(&[ints("output_shape", &[6])]), [1.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
    assert_eq!(made(&[ints("output_shape", &[3])]), [0.0, 0.0, 2.0]);
}

#[test]
fn small_variance_is_divided_by_its_root() {
    let made = |dims: &[i64], x: Vec<f32>| {
        let norm = node("MeanVarianceNormalization", &["x"], "y", &[]);
        let parts = [value(11, "x", dims), norm, open(12, "y", FLOAT, &[])];
        network(&parts, &[]).unwrap().execute(&[Array::F32(x)]).unwrap().remove(0)
    };
    assert_near(&made(&[1, 1, 2, 2], vec![1e-5, -1e-5, 1e-5, -1e-5]), &[1.0, -1.0, 1.0, -1.0]);
    assert_near(&made(&[1, 1, 2, 2], vec![0.0; 4]), &[0.0; 4]);
    // Axis 3, one of the usual ones, is left out.
    let want = [-1.341_640_8, -0.447_213_6, 0.447_213_6, 1.341_640_8];
    assert_near(&made(&[2, 1, 2], vec![1.0, 2.0, 3.0, 4.0]), &want);
}

#[test]
fn rows_are_reversed_up_to_computed_lengths() {
    let made = |dims: &[i64], x: [f32; 6], more: &[Vec<u8>]| {
        let parts = [
            value(11, "x", dims),
            typed(11, "lengths", 7, &[2]),
            node("ReverseSequence", &["x", "lengths"], "y", more),
            open(12, "y", FLOAT, &[]),
        ];
        let given = [Array::F32(x.to_vec()), Array::I64(vec![2, 3])];
        doubles(&network(&parts, &[]).unwrap().execute(&given).unwrap()[0])
    };
    let by_step = made(&[3, 2], [1.0, 4.0, 2.0, 5.0, 3.0, 6.0], &[]);
    assert_eq!(by_step, [2.0, 6.0, 1.0, 5.0, 3.0, 4.0]);
    let axes = [int("batch_axis", 0), int("time_axis", 1)];
    let by_row = made(&[2, 3, 1], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &axes);
    assert_eq!(by_row, [2.0, 1.0, 3.0, 6.0, 5.0, 4.0]);
}

/// The nearest single to a factor of 0.7 or 1.4 is less, and its product is rounded.
#[test]
fn size_by_a_factor_is_rounded_as_by_onnx_runtime() {
    for (from, factor, want) in [(10, 0.7, 7), (5, 1.4, 7), (9, 0.7, 6), (0, 2.0, 0)] {
        let parts = [
            value(11, "x", &[from]),
            singles("scales", &[1], |_| factor),
            node("Resize", &["x", "", "scales"], "y", &[text("mode", "linear")]),
            open(12, "y", FLOAT, &[]),
        ];
        let network = network(&parts, &[]).unwrap();
        assert_eq!(network.outputs[0].spec.dims, [want], "{from} by {factor}");
    }
}

/// Times in nanoseconds are beyond 2⁵³, so that no double is each of them.
#[test]
fn range_of_large_integers_is_exact() {
    let number = |name, number: i64| stored(name, 7, &[], &number.to_le_bytes());
    let first = (1 << 53) + 1;
    for (to, by, want) in [
        (first + 3, 1, vec![first, first + 1, first + 2]),
        (first - 4, -3, vec![first, first - 3]),
        (first - 1, 1, vec![]),
    ] {
        let parts = [
            number("from", first),
            number("to", to),
            number("by", by),
            node("Range", &["from", "to", "by"], "y", &[]),
            open(12, "y", 7, &["n"]),
        ];
        let made = network(&parts, &[]).unwrap().execute(&[]).unwrap();
        assert_eq!(made[0], Array::I64(want), "to {to} by {by}");
    }
    let still = [
        number("from", first),
        number("by", 0),
        node("Range", &["from", "from", "by"], "y", &[]),
        open(12, "y", 7, &["n"]),
    ];
    let said = network(&still, &[]).unwrap_err();
    assert!(said.ends_with(&format!("from {first} to {first} by 0")), "{said}");
}

/// As ONNX Runtime 1.32 has them: the difference of two singles is not rounded to one.
#[test]
fn number_of_steps_between_singles_is_that_of_onnx_runtime() {
    let number = |name: &str, number: f32| stored(name, FLOAT, &[], &number.to_le_bytes());
    for (from, to, by, want) in [(0.1, 0.4, 0.1, 3), (0.7, 3.9, 0.4, 9), (0.4, 1.0, 0.2, 3)] {
        let parts = [
            number("from", from),
            number("to", to),
            number("by", by),
            node("Range", &["from", "to", "by"], "y", &[]),
            open(12, "y", FLOAT, &["n"]),
        ];
        let made = network(&parts, &[]).unwrap().execute(&[]).unwrap();
        assert_eq!(doubles(&made[0]).len(), want, "from {from} to {to} by {by}");
    }
}

/// By the examples of the standard.
#[test]
fn products_run_along_an_axis_both_ways() {
    let made = |element: i64, x: Array, exclusive: i64, reverse: i64| {
        let attributes = [int("exclusive", exclusive), int("reverse", reverse)];
        let parts = [
            numbers("axis", &[-1]),
            node("CumProd", &["x", "axis"], "y", &attributes),
            typed(11, "x", element, &[2, 3]),
            typed(12, "y", element, &[2, 3]),
        ];
        doubles(&network(&parts, &[]).unwrap().execute(&[x]).unwrap()[0])
    };
    let x = || Array::I64(vec![1, 2, 3, 4, -5, 6]);
    assert_eq!(made(7, x(), 0, 0), [1.0, 2.0, 6.0, 4.0, -20.0, -120.0]);
    assert_eq!(made(7, x(), 1, 0), [1.0, 1.0, 2.0, 1.0, 4.0, -20.0]);
    assert_eq!(made(7, x(), 0, 1), [6.0, 6.0, 3.0, -120.0, -30.0, 6.0]);
    assert_eq!(made(7, x(), 1, 1), [6.0, 3.0, 1.0, -30.0, 6.0, 1.0]);
    // The product of the last two is not a single.
    let x = Array::F32(vec![1e-30, 1e30, 1e30, 0.5, 0.5, 0.5]);
    let got = made(1, x, 0, 0);
    assert!((got[2] / 1e30 - 1.0).abs() < 1e-6 && got[5] == 0.125, "{got:?}");
}

#[test]
fn gates_are_multiplied_by_the_other_operand() {
    let made = |alpha: f32| {
        let parts = [
            node("SwiGLU", &["x", "b"], "y", &[float("alpha", alpha)]),
            singles("b", &[3], |k| [5.0, 2.0, 3.0][k as usize]),
            value(11, "x", &[3]),
            value(12, "y", &[3]),
        ];
        let x = Array::F32(vec![0.0, 1.0, -2.0]);
        network(&parts, &[]).unwrap().execute(&[x]).unwrap().remove(0)
    };
    assert_near(&made(1.0), &[0.0, 1.462_117, -0.715_218]);
    assert_near(&made(2.0), &[0.0, 1.761_594, -0.107_917]);
}

#[test]
fn blocks_of_space_become_channels_in_either_order() {
    let made = |mode: &str| {
        let parts = [
            node("SpaceToDepth", &["x"], "y", &[int("blocksize", 2), text("mode", mode)]),
            value(11, "x", &[1, 2, 2, 2]),
            value(12, "y", &[1, 8, 1, 1]),
        ];
        let x = Array::F32((0..8u8).map(f32::from).collect());
        doubles(&network(&parts, &[]).unwrap().execute(&[x]).unwrap()[0])
    };
    assert_eq!(made("DCR"), [0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0]);
    assert_eq!(made("CRD"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

#[test]
fn causal_convolution_hands_its_last_elements_on() {
    let made = |past: &str, activation: &str| {
        let parts = [
            node_of(
                "CausalConvWithState",
                &["x", "w", "b", past],
                &["y", "state"],
                &[text("activation", activation)],
            ),
            singles("w", &[2, 1, 2], |k| [1.0, 2.0, 0.5, -1.0][k as usize]),
            singles("b", &[2], |k| [10.0, 0.0][k as usize]),
            singles("past", &[2, 2, 1], |k| 4.0 + (k % 2) as f32),
            value(11, "x", &[2, 2, 3]),
            value(12, "y", &[2, 2, 3]),
            value(12, "state", &[2, 2, 1]),
        ];
        let row = [1.0, 2.0, 3.0, -1.0, 0.0, 2.0];
        let x = Array::F32([row, row].concat());
        network(&parts, &[]).unwrap().execute(&[x]).unwrap()
    };
    let twice = |row: [f64; 6]| [row, row].concat();
    let got = made("past", "none");
    assert_near(&got[0], &twice([16.0, 15.0, 18.0, 3.5, -0.5, -2.0]));
    assert_near(&got[1], &[3.0, 2.0, 3.0, 2.0]);
    assert_near(&made("", "none")[0], &twice([12.0, 15.0, 18.0, 1.0, -0.5, -2.0]));
    let want = [16.0, 15.0, 18.0, 3.397_407, -0.188_770, -0.238_406];
    assert_near(&made("past", "silu")[0], &twice(want));
}

/// Results of an optimizer for two tensors of one element, after `count` steps before.
fn optimized(
    op: &str,
    count: i64,
    kept: &[[f32; 2]],
    attributes: &[Vec<u8>],
) -> Result<Array, String> {
    let lists = [&[[1.0, -2.0], [0.5, 1.0]][..], kept].concat();
    let named = |letter: &str, count: usize| -> Vec<String> {
        (0..count).map(|k| format!("{letter}{k}")).collect()
    };
    let (inputs, outputs) = (named("x", 2 * lists.len()), named("y", 2 * (kept.len() + 1)));
    let tensors = inputs.iter().map(String::as_str);
    let operands: Vec<&str> = ["rate", "count"].into_iter().chain(tensors).collect();
    let results: Vec<&str> = outputs.iter().map(String::as_str).collect();
    let mut parts = vec![
        stored("rate", FLOAT, &[], &0.5f32.to_le_bytes()),
        stored("count", 7, &[], &count.to_le_bytes()),
        node_in("ai.onnx.preview.training", op, &operands, &results, attributes),
    ];
    parts.extend(inputs.iter().map(|name| value(11, name, &[1])));
    parts.extend(outputs.iter().map(|name| value(12, name, &[1])));
    let given: Vec<Array> =
        lists.iter().flatten().map(|&number| Array::F32(vec![number])).collect();
    let made = network(&parts, &[])?.execute(&given).unwrap();
    Ok(Array::F64(made.iter().flat_map(doubles).collect()))
}

/// Expected numbers are those of ONNX's reference evaluator. Each list is that of new tensors, and
/// then of what is kept of them.
#[test]
fn optimizers_make_one_step_for_each_tensor() {
    let (half, quarter) = (|name: &str| float(name, 0.5), |name: &str| float(name, 0.25));
    let adagrad = [half("decay_factor"), quarter("epsilon"), half("norm_coefficient")];
    let momentum = [half("alpha"), quarter("beta"), half("norm_coefficient")];
    let of_mode = |mode: &str| [&momentum[..], &[text("mode", mode)]].concat();
    let more = [quarter("epsilon"), quarter("norm_coefficient_post")];
    let adam = [&momentum[..], &more].concat();
    let (first, second) = ([0.5, -1.0], [4.0, 0.25]);
    let check = |op, count, kept: &[[f32; 2]], attributes: &[Vec<u8>], want: &[f64]| {
        assert_near(&optimized(op, count, kept, attributes).unwrap(), want);
    };
    check("Adagrad", 0, &[second], &adagrad, &[0.7988792, -2.0, 5.0, 0.25]);
    check("Adagrad", 3, &[second], &adagrad, &[0.9195517, -2.0, 5.0, 0.25]);
    check("Momentum", 0, &[second], &of_mode("standard"), &[-0.5, -2.0625, 3.0, 0.125]);
    check("Momentum", 3, &[second], &of_mode("standard"), &[-0.125, -2.0625, 2.25, 0.125]);
    check("Momentum", 0, &[second], &of_mode("nesterov"), &[-0.25, -2.03125, 3.0, 0.125]);
    check("Momentum", 3, &[second], &of_mode("nesterov"), &[-0.0625, -2.03125, 2.25, 0.125]);
    let kept = [0.75, -0.5, 1.75, 0.0625];
    check("Adam", 0, &[first, second], &adam, &[&[0.5711874, -1.125][..], &kept].concat());
    check("Adam", 3, &[first, second], &adam, &[&[0.5472456, -1.07479][..], &kept].concat());
    let said = optimized("Momentum", 0, &[second], &of_mode("other")).unwrap_err();
    assert!(said.ends_with("attribute mode = \"other\""), "{said}");
    let said = optimized("Adam", 0, &[second], &adam).unwrap_err();
    assert!(said.ends_with("a step takes 4 operands for each tensor, got 6"), "{said}");
}

/// `Not` is that of version 1; `Neg` has changed with 6, and `Add` with 7.
#[test]
fn older_file_is_read_if_its_operators_have_not_changed() {
    let read = |opset: i64, node: Vec<u8>, element: i64| {
        let parts = [node, typed(11, "x", element, &[2]), typed(12, "y", element, &[2])];
        let bytes = file(opset, &parts);
        let read = Model::from_onnx(&bytes, "made").tensors_only().read();
        read.map(|model| model.tensors().unwrap().clone()).map_err(|error| error.to_string())
    };
    let not = read(1, node("Not", &["x"], "y", &[]), 9).unwrap();
    let truths = Array::from_le_bytes(Element::Bool, &[1, 0]);
    assert_eq!(doubles(&not.execute(&[truths]).unwrap()[0]), [0.0, 1.0]);
    let neg = || node("Neg", &["x"], "y", &[]);
    read(6, neg(), FLOAT).unwrap();
    let add = node("Add", &["x", "x"], "y", &[]);
    for (opset, changed) in [(5, neg()), (6, add)] {
        let said = read(opset, changed, FLOAT).unwrap_err();
        let wanted = format!("operator set {opset} (have: 7 to 28) is not supported");
        assert!(said.contains(&wanted), "{said}");
    }
}

/// The result has the type of the scale, as the standard has it.
#[test]
fn norm_by_the_root_mean_square_has_the_type_of_its_scale() {
    let parts = [
        node("RMSNormalization", &["x", "s"], "y", &[]),
        stored("s", 10, &[2], &[0, 0x3c, 0, 0x40]), // 1 and 2
        value(11, "x", &[1, 2]),
        typed(12, "y", 10, &[1, 2]),
    ];
    let bytes = file(23, &parts);
    let model = Model::from_onnx(&bytes, "made").tensors_only().read().unwrap();
    let made = model.tensors().unwrap().execute(&[Array::F32(vec![3.0, 3.0])]).unwrap();
    assert_eq!((made[0].element(), doubles(&made[0])), (Element::F16, vec![1.0, 2.0]));
}

/// Operator set 27 says in which type the numbers are made; the usual one is written out too.
#[test]
fn range_may_say_the_type_of_its_steps() {
    let half = |name: &str, bytes: [u8; 2]| stored(name, 10, &[], &bytes);
    let parts = [
        node("Range", &["from", "to", "by"], "y", &[int("stash_type", 1)]),
        half("from", [0, 0]),
        half("to", [0, 0x42]), // 3
        half("by", [0, 0x3c]), // 1
        typed(12, "y", 10, &[3]),
    ];
    let bytes = file(27, &parts);
    let model = Model::from_onnx(&bytes, "made").tensors_only().read().unwrap();
    let made = model.tensors().unwrap().execute(&[]).unwrap();
    assert_eq!((made[0].element(), doubles(&made[0])), (Element::F16, vec![0.0, 1.0, 2.0]));
}

#[test]
fn resize_by_factors_and_sizes_is_refused() {
    let parts = [
        node("Resize", &["x", "", "by", "to"], "y", &[]),
        singles("by", &[2], |_| 2.0),
        numbers("to", &[2, 3]),
        value(11, "x", &[1, 1]),
        open(12, "y", FLOAT, &[]),
    ];
    let said = network(&parts, &[]).unwrap_err();
    assert!(said.ends_with("factors and sizes exclude each other"), "{said}");
}

/// ONNX Runtime refuses it too.
#[test]
fn window_of_other_sizes_than_its_filters_is_refused() {
    for op in ["Conv", "ConvTranspose"] {
        let parts = [
            node(op, &["x", "w"], "y", &[ints("kernel_shape", &[2, 2])]),
            ones("w", &[1, 1, 3, 3]),
            value(11, "x", &[1, 1, 4, 4]),
            open(12, "y", FLOAT, &[]),
        ];
        let said = network(&parts, &[]).unwrap_err();
        let want = "attribute kernel_shape = [2, 2] for filters float32[1, 1, 3, 3]";
        assert!(said.ends_with(want), "{said}");
    }
}
