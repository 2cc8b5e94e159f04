//! Sizes that data decide: what an answer has, and which operators can't have them. `runtime.rs`
//! compares numbers.

use super::{doubles, network, numbers, outputs};
use crate::handmade::{
    bytes, file, graph, int, ints, node, node_in, node_of, ones, open, scalar, singles, stored,
    tensor, text, value,
};
use reef_models::{Extent, Model};
use reef_op::tensor::Array;

const FLOAT: i64 = 1;
const U8: i64 = 2;
const I64: i64 = 7;
const MS: &str = "com.microsoft";

/// Rows of `x` whose first column isn't 0, and what `more` makes of `y`.
pub(super) fn rows(more: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let first = stored("first", I64, &[], &0i64.to_le_bytes());
    let parts = [
        first,
        node("Gather", &["x", "first"], "column", &[int("axis", 1)]),
        node("Cast", &["column"], "keep", &[int("to", 9)]),
        node("Compress", &["x", "keep"], "y", &[int("axis", 0)]),
        value(11, "x", &[3, 2]),
    ];
    [&parts[..], more].concat()
}

#[test]
fn answer_has_as_many_rows_as_there_are() {
    let network = network(&rows(&[open(12, "y", FLOAT, &["n", "2"])]), &[]).unwrap();
    assert_eq!(network.outputs.len(), 2, "and the size");
    let port = &network.outputs[0];
    assert!(matches!(port.extent, Extent::Bounded { axis: 0, .. }));
    for (x, want) in [
        ([1.0, 2.0, 0.0, 3.0, 4.0, 5.0], vec![1.0, 2.0, 4.0, 5.0]),
        ([0.0, 2.0, 0.0, 3.0, 0.0, 5.0], vec![]),
        ([1.0; 6], vec![1.0; 6]),
    ] {
        let made = network.execute(&[Array::F32(x.to_vec())]).unwrap();
        assert_eq!((made.len(), doubles(&made[0])), (1, want.clone()));
        assert_eq!(port.spec_of(want.len()).dims, [want.len() / 2, 2]);
    }
}

#[test]
fn operators_of_other_rows_refuse_sizes_of_data() {
    let say = |op: &str, inputs: &[&str], attributes: &[Vec<u8>]| {
        let more = [
            node(op, inputs, "z", attributes),
            scalar("two", 2.0),
            stored("shape", I64, &[1], &(-1i64).to_le_bytes()),
            open(12, "z", FLOAT, &[]),
        ];
        network(&rows(&more), &[]).map(drop)
    };
    say("Mul", &["y", "two"], &[]).unwrap();
    say("Reshape", &["y", "shape"], &[]).unwrap(); // rows of two become rows of one
    for op in ["ReduceSum", "Softmax", "Size", "NonZero", "LpNormalization", "Mish"] {
        say(op, &["y"], &[]).unwrap();
    }
    for op in ["Hardmax", "Trilu", "Unique"] {
        let said = say(op, &["y"], &[]).unwrap_err();
        let want = format!("\"z\" ({op}): data decide about a size of operand 0");
        assert!(said.contains(&want), "{said}");
    }
    say("Add", &["y", "x"], &[]).unwrap_err(); // of another number of rows
    say("Concat", &["y", "y"], &[int("axis", 1)]).unwrap();
    say("Concat", &["y", "y"], &[int("axis", 0)]).unwrap();
}

/// Columns of real rows are selected, and all rows stay as many as data decide.
#[test]
fn known_condition_selects_real_rows_and_keeps_other_sizes() {
    let selected = |attributes: &[Vec<u8>]| {
        [
            stored("second", 9, &[2], &[0, 1]),
            node("Compress", &["y", "second"], "z", attributes),
            open(12, "z", FLOAT, &[]),
        ]
    };
    let x = [1.0, 2.0, 0.0, 3.0, 4.0, 5.0];
    assert_eq!(made_of_rows(&selected(&[int("axis", 1)]), x), [2.0, 5.0]);
    assert_eq!(made_of_rows(&selected(&[int("axis", 0)]), x), [4.0, 5.0]);
    assert_eq!(made_of_rows(&selected(&[]), x), [2.0], "the second element of all");
    let (one, none) = ([1.0, 2.0, 0.0, 3.0, 0.0, 5.0], [0.0, 2.0, 0.0, 3.0, 0.0, 5.0]);
    assert_eq!(made_of_rows(&selected(&[int("axis", 0)]), one), [0.0; 0], "there is no second row");
    assert_eq!(made_of_rows(&selected(&[]), one), [2.0]);
    assert_eq!(made_of_rows(&selected(&[]), none), [0.0; 0]);
    let parts = [
        stored("second", 9, &[2], &[0, 1]),
        node("Transpose", &["y"], "columns", &[]),
        node("Compress", &["columns", "second"], "z", &[]),
    ];
    refused_of_rows(&parts, "data decide about a size of operand 0");
}

/// As exporters repeat the mask of each tensor that it selects from.
#[test]
fn selections_by_equal_masks_have_the_same_size() {
    let sum_with_rows_by = |column: &str| {
        [
            stored("other", I64, &[], &1i64.to_le_bytes()),
            node("Gather", &["x", column], "another", &[int("axis", 1)]),
            node("Cast", &["another"], "mask", &[int("to", 9)]),
            node("Compress", &["x", "mask"], "same", &[int("axis", 0)]),
            node("Add", &["y", "same"], "z", &[]),
            open(12, "z", FLOAT, &["n", "2"]),
        ]
    };
    let made = made_of_rows(&sum_with_rows_by("first"), [1.0, 2.0, 0.0, 3.0, 4.0, 5.0]);
    assert_eq!(made, [2.0, 4.0, 8.0, 10.0]);
    refused_of_rows(&sum_with_rows_by("other"), "data decide about a size of operand 0");
}

/// As the scores and the boxes of several levels.
#[test]
fn joined_selections_have_the_same_size() {
    let parts = [
        scalar("ten", 10.0),
        node("Mul", &["y", "ten"], "more", &[]),
        node("Concat", &["y", "y"], "scores", &[int("axis", 0)]),
        node("Concat", &["more", "more"], "boxes", &[int("axis", 0)]),
        numbers("begin", &[0]),
        numbers("end", &[i64::MAX]),
        node("Slice", &["boxes", "begin", "end", "begin"], "all", &[]),
        node("Add", &["scores", "all"], "z", &[]),
        open(12, "z", FLOAT, &["n", "2"]),
    ];
    let made = made_of_rows(&parts, [1.0, 2.0, 0.0, 3.0, 4.0, 5.0]);
    assert_eq!(made, [11.0, 22.0, 44.0, 55.0, 11.0, 22.0, 44.0, 55.0]);
}

#[test]
fn images_whose_number_data_decide_are_resized_to_sizes() {
    let parts = counted(&[
        numbers("image", &[-1, 1, 1, 2]),
        numbers("rest", &[1, 1, 4]),
        node("Reshape", &["y", "image"], "images", &[]),
        node("Concat", &["n", "rest"], "wanted", &[int("axis", 0)]),
        node("Resize", &["images", "", "", "wanted"], "z", &[]),
        open(12, "z", FLOAT, &["n", "1", "1", "4"]),
    ]);
    let made = made_of_rows(&parts, [1.0, 2.0, 0.0, 3.0, 4.0, 5.0]);
    assert_eq!(made, [1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 5.0, 5.0]);
}

/// As detectors of points that look up what describes each of them.
#[test]
fn samples_are_taken_at_places_that_data_decide() {
    let parts = [
        numbers("places", &[1, -1, 1, 2]),
        node("Reshape", &["y", "places"], "grid", &[]),
        singles("image", &[1, 2, 1, 2], |k| [1.0, 3.0, 10.0, 30.0][k as usize]),
        node("GridSample", &["image", "grid"], "z", &[int("align_corners", 1)]),
        open(12, "z", FLOAT, &["1", "2", "n", "1"]),
    ];
    let made = made_of_rows(&parts, [-1.0, 0.0, 0.0, 5.0, 1.0, 0.0]);
    assert_eq!(made, [1.0, 3.0, 10.0, 30.0]);
    let parts = [
        numbers("of_batches", &[-1, 1, 1, 2]),
        node("Reshape", &["y", "of_batches"], "grids", &[]),
        ones("images", &[3, 1, 1, 2]),
        node("GridSample", &["images", "grids"], "z", &[]),
    ];
    refused_of_rows(&parts, "data decide about a size of operand 1");
}

/// Operators that ONNX Runtime's optimizer and quantizer put in the place of others.
#[test]
fn fused_and_quantized_operators_have_rows_that_data_decide() {
    let x = [1.0, 2.0, 0.0, 255.0, 3.0, 5.1];
    let made = |nodes: &[Vec<u8>], dims: &[&str]| {
        let known = [ones("w", &[2, 2]), scalar("s", 1.0), stored("zero", U8, &[], &[0])];
        let parts = [&known[..], nodes, &[open(12, "z", FLOAT, dims)]].concat();
        let made = made_of_rows(&parts, x);
        made.iter().map(|number| (number * 10.0).round()).collect::<Vec<_>>()
    };
    let product = node_in(MS, "FusedMatMul", &["y", "w"], &["z"], &[]);
    assert_eq!(made(&[product], &["n", "2"]), [30.0, 30.0, 81.0, 81.0]);
    let activation = [text("activation", "Relu")];
    let layer = node_in(MS, "FusedGemm", &["y", "w"], &["z"], &activation);
    assert_eq!(made(&[layer], &["n", "2"]), [30.0, 30.0, 81.0, 81.0]);
    let large = node("ThresholdedRelu", &["y"], "z", &[]);
    assert_eq!(made(&[large], &["n", "2"]), [0.0, 20.0, 30.0, 51.0]);
    let sum = ["q", "s", "zero", "q", "s", "zero", "s", "zero"];
    let shares = [int("axis", 0), int("opset", 13)];
    let nodes = [
        node("QuantizeLinear", &["y", "s", "zero"], "q", &[]),
        node_in(MS, "QLinearAdd", &sum, &["sum"], &[]),
        node("DequantizeLinear", &["sum", "s", "zero"], "z", &[]),
    ];
    assert_eq!(made(&nodes, &["n", "2"]), [20.0, 40.0, 60.0, 100.0]);
    let nodes = [
        node("QuantizeLinear", &["y", "s", "zero"], "q", &[]),
        node_in(MS, "QLinearSoftmax", &["q", "s", "zero", "tenth", "zero"], &["p"], &shares),
        scalar("tenth", 0.1),
        node("DequantizeLinear", &["p", "tenth", "zero"], "z", &[]),
    ];
    assert_eq!(made(&nodes, &["n", "2"]), [1.0, 0.0, 9.0, 10.0]);
    let range = node_of("DynamicQuantizeLinear", &["y"], &["q", "step", "least"], &[]);
    let steps = [range, stored("n", FLOAT, &[], &1000f32.to_le_bytes())];
    let steps = [&steps[..], &[node("Mul", &["step", "n"], "z", &[])]].concat();
    assert_eq!(made(&steps, &[]), [200.0], "the range of real rows");
}

/// As torchvision's detectors of operator set 11.
#[test]
fn softmax_of_old_files_has_rows_that_data_decide() {
    for axis in [0, 1] {
        let shares = node("Softmax", &["y"], "z", &[int("axis", axis)]);
        let parts = rows(&[shares, open(12, "z", FLOAT, &["n", "2"])]);
        let read = Model::from_onnx(&file(11, &parts), "made").tensors_only().read().unwrap();
        let x = Array::F32(vec![4.0, 4.0, 0.0, 9.0, 4.0, 4.0]);
        let made = read.tensors().unwrap().execute(&[x]).unwrap();
        // Along all axes from this one on.
        assert_eq!(doubles(&made[0]), [[0.25; 4], [0.5; 4]][axis as usize]);
    }
}

#[test]
fn products_sum_over_rows_that_data_decide() {
    let attention = [
        ones("query", &[1, 2]),
        node("Transpose", &["y"], "keys", &[]),
        node("MatMul", &["query", "keys"], "scores", &[]),
        node("Softmax", &["scores"], "parts", &[]),
        node("MatMul", &["parts", "y"], "z", &[]),
        open(12, "z", FLOAT, &["1", "2"]),
    ];
    for (x, want) in [
        ([1.0, 2.0, 0.0, 90.0, 2.0, 1.0], [1.5, 1.5]),
        ([0.0, 9.0, 4.0, 2.0, 0.0, f32::NAN], [4.0, 2.0]),
    ] {
        let made = made_of_rows(&attention, x);
        assert!(made.iter().zip(want).all(|(x, y)| (x - y).abs() < 1e-5), "{made:?}");
    }
    let parts = [node("MatMul", &["query", "y"], "z", &[]), ones("query", &[1, 3])];
    refused_of_rows(&parts, "data decide about a size of operand 1");
}

/// A loop that gives the sum of each of the first `count` rows, and that of all of these.
fn sums_of_rows(count: &[Vec<u8>], more: &[Vec<u8>]) -> Vec<Vec<u8>> {
    const BOOL: i64 = 9;
    let body = [
        open(11, "i", I64, &[]),
        open(11, "going", BOOL, &[]),
        open(11, "h", FLOAT, &[]),
        node("Gather", &["y", "i"], "row", &[]),
        node("ReduceSum", &["row"], "part", &[int("keepdims", 0)]),
        node("Add", &["h", "part"], "sum", &[]),
        node("Identity", &["going"], "same", &[]),
        open(12, "same", BOOL, &[]),
        open(12, "sum", FLOAT, &[]),
        open(12, "part", FLOAT, &[]),
    ];
    let outputs = ["total", "parts"];
    let looped = [
        scalar("zero", 0.0),
        node_of("Loop", &["count", "", "zero"], &outputs, &[graph("body", &body)]),
    ];
    counted(&[count, &looped[..], more].concat())
}

/// As scripts write what they do for each box.
#[test]
fn loop_over_rows_that_data_decide_gives_a_result_of_each() {
    let x = [1.0, 2.0, 0.0, 3.0, 4.0, 5.0];
    let all = [node("Squeeze", &["n"], "count", &[])];
    let but_one = [node("Sub", &["n", "one"], "count", &[])];
    for (count, parts, total) in [(&all, vec![3.0, 9.0], 12.0), (&but_one, vec![3.0], 3.0)] {
        let made = |output: &str, x: [f32; 6]| {
            let more = [node("Identity", &[output], "z", &[]), open(12, "z", FLOAT, &[])];
            made_of_rows(&sums_of_rows(count, &more), x)
        };
        assert_eq!((made("parts", x), made("total", x)), (parts, vec![total]));
        assert_eq!((made("parts", [0.0; 6]), made("total", [0.0; 6])), (vec![], vec![0.0]));
    }
}

#[test]
fn results_of_a_loop_are_as_many_as_the_rows() {
    let all = [node("Squeeze", &["n"], "count", &[])];
    let more = [
        node("ReduceSum", &["y", "one"], "sums", &[int("keepdims", 0)]),
        node("Add", &["parts", "sums"], "z", &[]),
        open(12, "z", FLOAT, &["n"]),
    ];
    let made = made_of_rows(&sums_of_rows(&all, &more), [1.0, 2.0, 0.0, 3.0, 4.0, 5.0]);
    assert_eq!(made, [6.0, 18.0]);
}

/// A body may give its input a name that the graph around it has for another tensor.
#[test]
fn size_of_data_is_kept_if_a_body_has_its_name() {
    const BOOL: i64 = 9;
    let body = [
        open(11, "i", I64, &[]),
        open(11, "going", BOOL, &[]),
        open(11, "y", FLOAT, &[]),
        node("Neg", &["y"], "turned", &[]),
        node("Identity", &["going"], "same", &[]),
        open(12, "same", BOOL, &[]),
        open(12, "turned", FLOAT, &[]),
    ];
    let looped = |state: &str, result: &str| {
        let count = stored("count", I64, &[], &2i64.to_le_bytes());
        let graphs = [graph("body", &body)];
        [count, node_of("Loop", &["count", "", state], &[result], &graphs)].concat()
    };
    let more =
        [looped("x", "all"), node("Neg", &["y"], "z", &[]), open(12, "z", FLOAT, &["n", "2"])];
    let made = made_of_rows(&more, [1.0, 2.0, 0.0, 3.0, 4.0, 5.0]);
    assert_eq!(made, [-1.0, -2.0, -4.0, -5.0]);
    refused_of_rows(&[looped("y", "z")], "data decide about a size of \"y\"");
}

/// The other branch has the tensor around both.
#[test]
fn size_of_data_is_kept_if_one_branch_has_its_name() {
    let then = graph("then_branch", &[node("Neg", &["x"], "y", &[]), open(12, "y", FLOAT, &[])]);
    let other =
        graph("else_branch", &[node("Neg", &["y"], "turned", &[]), open(12, "turned", FLOAT, &[])]);
    let more = [
        node("ReduceSum", &["x"], "sum", &[int("keepdims", 0)]),
        node("Cast", &["sum"], "is", &[int("to", 9)]),
        node("If", &["is"], "z", &[then, other]),
        open(12, "z", FLOAT, &["n", "2"]),
    ];
    let made = made_of_rows(&more, [1.0, 2.0, 0.0, 3.0, 4.0, -10.0]); // their sum is 0
    assert_eq!(made, [-1.0, -2.0, -4.0, 10.0]);
}

#[test]
fn loop_over_rows_has_the_callers_bound() {
    let all = [node("Squeeze", &["n"], "count", &[])];
    let bytes = file(21, &rows(&sums_of_rows(&all, &[open(12, "parts", FLOAT, &["n"])])));
    let model = Model::from_onnx(&bytes, "made").tensors_only().loop_bound(1).read().unwrap();
    let made = |x: [f32; 6]| model.tensors().unwrap().execute(&[Array::F32(x.to_vec())]);
    assert_eq!(doubles(&made([0.0, 3.0, 4.0, 5.0, 0.0, 3.0]).unwrap()[0]), [9.0]);
    let said = made([1.0; 6]).unwrap_err().to_string();
    assert!(said.contains("(Loop): 1 iterations: "), "{said}");
}

/// As PyTorch writes `masked_scatter`: the updates are the first numbers of a source.
#[test]
fn places_have_as_many_updates_as_there_are() {
    let places =
        [node("NonZero", &["x"], "by_axis", &[]), node("Transpose", &["by_axis"], "y", &[])];
    let updates = counted(&[
        singles("source", &[4], |k| 10.0 * (k as f32 + 1.0)),
        node("Slice", &["source", "begin", "n"], "new", &[]),
        node("ScatterND", &["x", "y", "new"], "z", &[]),
        value(11, "x", &[3, 2]),
        value(12, "z", &[3, 2]),
    ]);
    let parts = [&places[..], &updates].concat();
    for (x, want) in [
        ([1.0, 0.0, 0.0, 2.0, 0.0, 0.0], [10.0, 0.0, 0.0, 20.0, 0.0, 0.0]),
        ([0.0; 6], [0.0; 6]),
        ([0.0, 1.0, 1.0, 1.0, 0.0, 1.0], [0.0, 10.0, 20.0, 30.0, 0.0, 40.0]),
    ] {
        let made = outputs(&parts, &[3, 2], Array::F32(x.to_vec())).remove(0);
        assert_eq!(doubles(&made), want);
    }
}

#[test]
fn shape_of_rows_that_data_decide_is_computed() {
    let more = [node("Shape", &["y"], "z", &[]), open(12, "z", I64, &["2"])];
    let network = network(&rows(&more), &[]).unwrap();
    for (x, want) in [([1.0, 2.0, 0.0, 3.0, 4.0, 5.0], 2.0), ([0.0; 6], 0.0), ([1.0; 6], 3.0)] {
        let made = network.execute(&[Array::F32(x.to_vec())]).unwrap();
        assert_eq!(doubles(&made[0]), [want, 2.0]);
    }
}

/// ONNX Runtime writes `start = 0` into files that it optimizes, PyTorch parts of shapes.
#[test]
fn part_of_a_shape_that_data_decide_is_followed() {
    let elements = |attributes: &[Vec<u8>]| {
        let parts = [
            node("Shape", &["y"], "sizes", attributes),
            node("ConstantOfShape", &["sizes"], "z", &[]),
            open(12, "z", FLOAT, &[]),
        ];
        made_of_rows(&parts, [1.0, 2.0, 0.0, 3.0, 4.0, 5.0]).len()
    };
    assert_eq!(elements(&[int("start", 0)]), 4);
    assert_eq!(elements(&[int("start", 0), int("end", 1)]), 2);
    assert_eq!(elements(&[int("end", -1)]), 2);
    assert_eq!(elements(&[int("start", -1)]), 2, "columns");
}

/// Output `z` of rows and `more` for this `x`.
pub(super) fn made_of_rows(more: &[Vec<u8>], x: [f32; 6]) -> Vec<f64> {
    let network = network(&rows(more), &[]).unwrap();
    doubles(&network.execute(&[Array::F32(x.to_vec())]).unwrap()[0])
}

#[track_caller]
pub(super) fn refused_of_rows(more: &[Vec<u8>], want: &str) {
    let more = [more, &[open(12, "z", FLOAT, &[])]].concat();
    let said = network(&rows(&more), &[]).unwrap_err();
    assert!(said.contains(want), "{said}");
}

#[test]
fn parts_of_rows_that_do_not_begin_with_the_first_are_refused() {
    for (starts, axes) in [([1, 0], [0, 1]), ([0, 1], [1, 0])] {
        let parts = [
            numbers("starts", &starts),
            numbers("ends", &[2, 2]),
            numbers("axes", &axes),
            node("Slice", &["y", "starts", "ends", "axes"], "z", &[]),
        ];
        refused_of_rows(&parts, "data decide about a size of operand 0");
    }
    let parts = [numbers("pads", &[-1, 0, 1, 0]), node("Pad", &["y", "pads"], "z", &[])];
    refused_of_rows(&parts, "data decide about a size of operand 0");
}

#[test]
fn shape_whose_other_axis_is_open_is_refused() {
    for first in [2, 3] {
        let parts = [numbers("shape", &[first, -1]), node("Reshape", &["y", "shape"], "z", &[])];
        refused_of_rows(&parts, "data decide about a size of operand 0");
    }
}

/// Two rows of three, or three of two: the other size would change as well.
#[test]
fn fixed_elements_in_a_shape_that_data_decide_are_refused() {
    let parts = counted(&[
        numbers("rest", &[-1]),
        node("Concat", &["n", "rest"], "shape", &[int("axis", 0)]),
        node("Reshape", &["x", "shape"], "z", &[]),
    ]);
    refused_of_rows(&parts, "data decide about a shape of a fixed number of elements");
}

#[test]
fn rows_that_are_expanded_to_a_fixed_number_are_refused() {
    let parts = [numbers("shape", &[3, 1]), node("Expand", &["y", "shape"], "z", &[])];
    refused_of_rows(&parts, "data decide about a size of operand 0");
    let parts = [
        numbers("shape", &[2, 1, 1]),
        node("Expand", &["y", "shape"], "z", &[]),
        open(12, "z", FLOAT, &["2", "n", "2"]),
    ];
    let made = made_of_rows(&parts, [1.0, 2.0, 0.0, 3.0, 0.0, 5.0]);
    assert_eq!(made, [1.0, 2.0, 1.0, 2.0]);
}

#[test]
fn condition_that_is_no_truth_values_is_refused() {
    let parts = [
        value(11, "x", &[3]),
        numbers("keep", &[3, 1 << 31]),
        node("Compress", &["x", "keep"], "y", &[]),
        open(12, "y", FLOAT, &["n"]),
    ];
    let said = network(&parts, &[]).unwrap_err();
    assert!(said.contains("a condition of int64[2]"), "{said}");
}

/// The number of rows as a list `n`, and what `more` makes of it.
pub(super) fn counted(more: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let parts = [
        node("Shape", &["y"], "sizes", &[]),
        numbers("begin", &[0]),
        numbers("one", &[1]),
        node("Slice", &["sizes", "begin", "one"], "n", &[]),
    ];
    [&parts[..], more].concat()
}

/// Of none, of some and of all rows; each row of a batch of two has as many.
#[test]
fn each_of_a_batch_has_as_many_as_data_decide() {
    let parts = counted(&[
        singles("m", &[2, 3], |k| [3.0, 5.0, 4.0, 1.0, 0.0, 2.0][k as usize]),
        node_of("TopK", &["m", "n"], &["z", "places"], &[]),
        open(12, "z", FLOAT, &["2", "n"]),
    ]);
    let network = network(&rows(&parts), &[]).unwrap();
    let port = &network.outputs[0];
    assert!(matches!(port.extent, Extent::Bounded { axis: 1, .. }));
    for (x, want) in [
        ([1.0, 2.0, 0.0, 3.0, 4.0, 5.0], vec![5.0, 4.0, 2.0, 1.0]),
        ([0.0, 2.0, 0.0, 3.0, 0.0, 5.0], vec![]),
        ([1.0; 6], vec![5.0, 4.0, 3.0, 2.0, 1.0, 0.0]),
    ] {
        let made = doubles(&network.execute(&[Array::F32(x.to_vec())]).unwrap()[0]);
        assert_eq!((port.spec_of(made.len()).dims, made), (vec![2, want.len() / 2], want));
    }
}

#[test]
fn number_of_sizes_that_data_decide_is_refused() {
    let parts = [
        numbers("all", &[2; 4]),
        node("Slice", &["all", "begin", "n"], "some", &[]),
        node("ConstantOfShape", &["some"], "z", &[]),
    ];
    refused_of_rows(&counted(&parts), "data decide about a size of operand 0");
}

#[test]
fn end_before_the_first_row_counts_from_the_last() {
    let parts = [
        node("Sub", &["n", "one"], "end", &[]),
        numbers("all", &[5, 6, 7, 8]),
        node("Slice", &["all", "begin", "end"], "z", &[]),
        open(12, "z", I64, &["m"]),
    ];
    let parts = counted(&parts);
    assert_eq!(made_of_rows(&parts, [1.0, 2.0, 0.0, 3.0, 4.0, 5.0]), [5.0]);
    assert_eq!(made_of_rows(&parts, [0.0; 6]), [5.0, 6.0, 7.0]);
}

/// As windows of two, three or four of what there is.
#[test]
fn whole_windows_of_rows_are_not_all_rows() {
    for (window, want) in [(2i64, 6), (3, 6), (4, 4)] {
        let parts = [
            value(11, "x", &[8]),
            node("NonZero", &["x"], "places", &[]),
            node("Size", &["places"], "n", &[]),
            numbers("window", &[window]),
            numbers("begin", &[0]),
            node("Div", &["n", "window"], "windows", &[]),
            node("Mul", &["windows", "window"], "end", &[]),
            node("Slice", &["x", "begin", "end"], "z", &[]),
            open(12, "z", FLOAT, &["m"]),
        ];
        let x = Array::F32(vec![1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(outputs(&parts, &[8], x)[0].len(), want, "windows of {window} in 7");
    }
}

/// The elements of a row: their number is known for no rows at all, and then it is 0.
#[test]
fn quotient_by_a_number_that_may_be_0_is_no_size() {
    let parts = counted(&[
        node("Size", &["y"], "all", &[]),
        node("Div", &["all", "n"], "each", &[]),
        node("ConstantOfShape", &["each"], "z", &[]),
    ]);
    refused_of_rows(&parts, "\"z\" (ConstantOfShape): the values of input [\"x\"] decide about");
}

/// It is not 0 for no rows and for all of them, and 0 for one.
#[test]
fn truth_of_a_number_of_rows_is_not_that_of_its_bounds() {
    let parts = counted(&[
        numbers("two", &[2]),
        numbers("three", &[3]),
        node("Sub", &["n", "one"], "but_one", &[]),
        node("Cast", &["but_one"], "is_other", &[int("to", 9)]),
        node("Where", &["is_other", "two", "three"], "size", &[]),
        node("ConstantOfShape", &["size"], "z", &[]),
    ]);
    refused_of_rows(&parts, "\"z\" (ConstantOfShape): the values of input [\"x\"] decide about");
}

/// An eighth of the rows is a quarter if there are two, and 0 or 0.75 at the bounds.
#[test]
fn fraction_of_a_number_of_rows_is_compared_as_it_is() {
    let parts = counted(&[
        node("Cast", &["n"], "real", &[int("to", 1)]),
        singles("eighth", &[1], |_| 0.125),
        node("Mul", &["real", "eighth"], "part", &[]),
        singles("quarter", &[1], |_| 0.25),
        node("Equal", &["part", "quarter"], "is_quarter", &[]),
        numbers("two", &[2]),
        numbers("three", &[3]),
        node("Where", &["is_quarter", "two", "three"], "size", &[]),
        node("ConstantOfShape", &["size"], "z", &[]),
    ]);
    refused_of_rows(&parts, "\"z\" (ConstantOfShape): the values of input [\"x\"] decide about");
}

/// The number in the middle is above both at the bounds.
#[test]
fn number_at_the_place_of_a_number_of_rows_is_no_bound() {
    for table in [[2, 9, 3], [3, 9, 3]] {
        let parts = counted(&[
            numbers("table", &table),
            numbers("two", &[2]),
            node("Min", &["n", "two"], "place", &[]),
            node("Gather", &["table", "place"], "size", &[]),
            node("ConstantOfShape", &["size"], "z", &[]),
        ]);
        refused_of_rows(
            &parts,
            "\"z\" (ConstantOfShape): the values of input [\"x\"] decide about",
        );
    }
}

#[test]
fn range_has_all_numbers_below_an_end_that_data_decide() {
    let halves = counted(&[
        node("Squeeze", &["n"], "count", &[]),
        node("Cast", &["count"], "real", &[int("to", FLOAT)]),
        scalar("half", 0.5),
        node("Mul", &["real", "half"], "end", &[]),
        scalar("from", 0.0),
        scalar("step", 1.0),
        node("Range", &["from", "end", "step"], "z", &[]),
        open(12, "z", FLOAT, &["m"]),
    ]);
    let x = [1.0, 2.0, 0.0, 3.0, 0.0, 5.0];
    assert_eq!(made_of_rows(&halves, x), [0.0], "below 0.5");
    assert_eq!(made_of_rows(&halves, [1.0; 6]), [0.0, 1.0], "below 1.5");
    assert!(made_of_rows(&halves, [0.0; 6]).is_empty());
    let number = |name, number: i64| stored(name, I64, &[], &number.to_le_bytes());
    let but_two = counted(&[
        node("Squeeze", &["n"], "count", &[]),
        number("two", 2),
        node("Sub", &["count", "two"], "end", &[]),
        number("from", 0),
        number("step", 1),
        node("Range", &["from", "end", "step"], "numbers", &[]),
        node("Shape", &["numbers"], "z", &[]),
        open(12, "z", I64, &["1"]),
    ]);
    assert_eq!(made_of_rows(&but_two, [1.0; 6]), [1.0]);
    assert_eq!(made_of_rows(&but_two, [0.0; 6]), [0.0], "none below -2");
}

#[test]
fn mean_of_integers_is_that_of_real_rows() {
    let parts = [
        node("Cast", &["y"], "whole", &[int("to", 6)]),
        node("ReduceMean", &["whole"], "z", &[]),
        open(12, "z", 6, &["1", "1"]),
    ];
    assert_eq!(made_of_rows(&parts, [1.0, 2.0, 0.0, 3.0, 1.0, 5.0]), [2.0]);
}

#[test]
fn last_of_equal_rows_is_a_real_one() {
    let found = |op: &str, element: i64, [one, other]: [f32; 2]| {
        let parts = [
            node("Cast", &["y"], "cast", &[int("to", element)]),
            node(op, &["cast"], "z", &[int("select_last_index", 1), int("keepdims", 0)]),
            open(12, "z", I64, &["2"]),
        ];
        made_of_rows(&parts, [1.0, one, 0.0, 3.0, 1.0, other])
    };
    let (most, none) = (f32::INFINITY, f32::NAN);
    for (op, rows, want) in [
        ("ArgMax", [-most, -most], 1.0),
        ("ArgMin", [most, most], 1.0),
        ("ArgMax", [none, none], 0.0),
        ("ArgMax", [-most, none], 0.0),
        ("ArgMin", [most, none], 0.0),
    ] {
        assert_eq!(found(op, FLOAT, rows), [1.0, want], "{op} of {rows:?}");
    }
    assert_eq!(found("ArgMax", 2, [0.0, 0.0]), [1.0, 1.0]);
    assert_eq!(found("ArgMin", 2, [255.0, 255.0]), [1.0, 1.0]);
}

#[test]
fn smallest_rows_are_real_ones_even_if_they_are_nan() {
    let parts = [
        numbers("k", &[2]),
        node_of("TopK", &["y", "k"], &["v", "z"], &[int("axis", 0), int("largest", 0)]),
        open(12, "z", I64, &["2", "2"]),
    ];
    assert_eq!(made_of_rows(&parts, [1.0, f32::NAN, 0.0, 3.0, 1.0, 5.0]), [0.0, 1.0, 1.0, 0.0]);
}

#[test]
fn negative_places_count_from_the_last_real_row() {
    let last = || stored("last", I64, &[1, 1], &(-1i64).to_le_bytes());
    let x = [1.0, 2.0, 0.0, 3.0, 4.0, 5.0];
    let found =
        [last(), node("GatherND", &["y", "last"], "z", &[]), open(12, "z", FLOAT, &["1", "2"])];
    assert_eq!(made_of_rows(&found, x), [4.0, 5.0]);
    let updated = [
        last(),
        node("Gather", &["x", "one"], "new", &[]),
        stored("one", I64, &[1], &1i64.to_le_bytes()),
        node("ScatterND", &["y", "last", "new"], "z", &[]),
        open(12, "z", FLOAT, &["n", "2"]),
    ];
    assert_eq!(made_of_rows(&updated, x), [1.0, 2.0, 0.0, 3.0]);
}

/// The function's operand has the name of rows that data decide about.
#[test]
fn names_of_a_function_are_its_own() {
    let sum = [bytes(1, "y"), bytes(2, "r"), bytes(3, "sum"), bytes(4, "ReduceSum")].concat();
    let ports = [bytes(4, "y"), bytes(5, "r"), bytes(7, sum)].concat();
    let function = [bytes(1, "Total"), ports, bytes(10, "made")].concat();
    let call = node_in("made", "Total", &["x"], &["z"], &[]);
    let graph = file(21, &rows(&[call, open(12, "z", FLOAT, &["1", "1"])]));
    let read = Model::from_onnx(&[graph, bytes(25, function)].concat(), "made")
        .tensors_only()
        .read()
        .unwrap();
    let x = Array::F32(vec![1.0, 2.0, 0.0, 3.0, 4.0, 5.0]);
    assert_eq!(doubles(&read.tensors().unwrap().execute(&[x]).unwrap()[0]), [15.0]);
}

/// The file is not broken: it is beyond what is read here.
#[test]
fn refusal_of_sizes_leaves_the_file_to_another_engine() {
    let more = [node("Hardmax", &["y"], "z", &[]), open(12, "z", FLOAT, &[])];
    let error = Model::from_onnx(&file(21, &rows(&more)), "made").tensors_only().read();
    let error = error.unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    assert!(error.to_string().ends_with(", or run the file by another engine"), "{error}");
}

/// As torchvision writes the boxes that stay: none, if there is nothing to choose from.
#[test]
fn branch_that_shapes_choose_has_a_size_that_data_decide() {
    let nothing = [
        stored("nothing", I64, &[1, 0], &[]),
        node("Identity", &["nothing"], "a", &[]),
        open(12, "a", I64, &[]),
    ];
    let places = [node("NonZero", &["x"], "b", &[]), open(12, "b", I64, &[])];
    let branches = [graph("then_branch", &nothing), graph("else_branch", &places)];
    let parts = [
        node("Size", &["x"], "count", &[]),
        stored("zero", I64, &[], &[0; 8]),
        node("Equal", &["count", "zero"], "is_empty", &[]),
        node("If", &["is_empty"], "at", &branches),
        node("Transpose", &["at"], "y", &[ints("perm", &[1, 0])]),
        node("Shape", &["y"], "size", &[]),
        value(11, "x", &[4]),
        open(12, "y", I64, &["n", "1"]),
        open(12, "size", I64, &["2"]),
    ];
    let made = outputs(&parts, &[4], Array::F32(vec![0.0, 3.0, 0.0, -1.0]));
    assert_eq!(made, [Array::I64(vec![1, 3]), Array::I64(vec![2, 1])]);
}

/// Earlier choices say whether there is something to choose from.
#[test]
fn branches_that_data_choose_may_differ_in_such_a_size() {
    let nothing = [
        stored("nothing", I64, &[0], &[]),
        node("Identity", &["nothing"], "a", &[]),
        open(12, "a", I64, &[]),
    ];
    let some = [
        stored("first", I64, &[1], &[0; 8]),
        node("Squeeze", &["places", "first"], "b", &[]),
        open(12, "b", I64, &[]),
    ];
    let branches = [graph("then_branch", &nothing), graph("else_branch", &some)];
    let parts = [
        node("NonZero", &["x"], "places", &[]),
        node("Size", &["places"], "count", &[]),
        stored("zero", I64, &[], &[0; 8]),
        node("Equal", &["count", "zero"], "is_empty", &[]),
        node("If", &["is_empty"], "at", &branches),
        node("Add", &["at", "zero"], "y", &[]),
        value(11, "x", &[4]),
        open(12, "y", I64, &["n"]),
    ];
    for (x, want) in [(vec![0.0, 3.0, 0.0, -1.0], vec![1, 3]), (vec![0.0; 4], vec![])] {
        assert_eq!(outputs(&parts, &[4], Array::F32(x)), [Array::I64(want)]);
    }
}

/// The rows that data choose go into a function and out of it, which chooses columns of them.
#[test]
fn functions_have_sizes_that_data_decide() {
    let nodes = [
        node("NonZero", &["a"], "places", &[]),
        node("Transpose", &["places"], "b", &[ints("perm", &[1, 0])]),
        node("Shape", &["b"], "size", &[]),
    ];
    // A node is field 1 of a graph, and field 7 of a function.
    let own = |node: &Vec<u8>| [&[7 << 3 | 2], &node[1..]].concat();
    let nodes: Vec<u8> = nodes.iter().flat_map(own).collect();
    let ports = [bytes(4, "a"), bytes(5, "b"), bytes(5, "size")].concat();
    let function = [bytes(1, "Where"), ports, nodes, bytes(10, "made")].concat();
    let graph = [
        value(11, "x", &[4]),
        node_in("made", "Where", &["x"], &["y", "s"], &[]),
        node_in("made", "Where", &["y"], &["z", ""], &[]),
        open(12, "y", I64, &["n", "1"]),
        open(12, "s", I64, &["2"]),
        open(12, "z", I64, &["m", "2"]),
    ];
    let read = Model::from_onnx(&[file(21, &graph), bytes(25, function)].concat(), "made")
        .tensors_only()
        .read()
        .unwrap();
    let made = read.tensors().unwrap().execute(&[Array::F32(vec![1.0, 0.0, 2.0, 3.0])]).unwrap();
    assert_eq!(doubles(&made[0]), [0.0, 2.0, 3.0]);
    assert_eq!(doubles(&made[1]), [3.0, 1.0]);
    // All but the first place are not 0.
    assert_eq!(doubles(&made[2]), [1.0, 0.0, 2.0, 0.0]);
}

/// A sequence of one graph, and a tensor of another that has its name.
#[test]
fn name_of_a_sequence_may_be_that_of_a_tensor_elsewhere() {
    let add = [bytes(1, "s"), bytes(1, "s"), bytes(2, "r"), bytes(3, "add"), bytes(4, "Add")];
    let ports = [bytes(4, "s"), bytes(5, "r"), bytes(7, add.concat())].concat();
    let function = [bytes(1, "Twice"), ports, bytes(10, "made")].concat();
    let graph = [
        value(11, "x", &[2]),
        node("SequenceConstruct", &["x", "x"], "s", &[]),
        stored("last", I64, &[], &(-1i64).to_le_bytes()),
        node("SequenceAt", &["s", "last"], "a", &[]),
        node_in("made", "Twice", &["a"], &["z"], &[]),
        open(12, "z", FLOAT, &["2"]),
    ];
    let read = Model::from_onnx(&[file(21, &graph), bytes(25, function)].concat(), "made")
        .tensors_only()
        .read()
        .unwrap();
    let made = read.tensors().unwrap().execute(&[Array::F32(vec![1.0, 2.0])]).unwrap();
    assert_eq!(doubles(&made[0]), [2.0, 4.0]);
}

/// Boxes whose scores aren't 0, and those of them that don't overlap.
#[test]
fn boxes_that_data_choose_hide_each_other() {
    let constant = |name, numbers: &[i64]| {
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        stored(name, I64, &[numbers.len() as i64], &raw)
    };
    let parts = [
        value(11, "boxes", &[4, 4]),
        value(11, "scores", &[4]),
        constant("first", &[0]),
        constant("both", &[0, 1]),
        constant("most", &[4]),
        node("NonZero", &["scores"], "places", &[]),
        node("Squeeze", &["places", "first"], "place", &[]),
        node("Gather", &["boxes", "place"], "b", &[]),
        node("Gather", &["scores", "place"], "s", &[]),
        node("Unsqueeze", &["b", "first"], "bb", &[]),
        node("Unsqueeze", &["s", "both"], "ss", &[]),
        node("NonMaxSuppression", &["bb", "ss", "most", "overlap"], "y", &[]),
        scalar("overlap", 0.5),
        open(12, "y", I64, &["n", "3"]),
    ];
    let network = network(&parts, &[]).unwrap();
    let boxes: Vec<f32> =
        [0.0f32, 5.0, 0.1, 9.0].iter().flat_map(|&x| [x, 0.0, x + 2.0, 2.0]).collect();
    let chosen = |scores: &[f32]| {
        let made = network.execute(&[Array::F32(boxes.clone()), Array::F32(scores.to_vec())]);
        doubles(&made.unwrap()[0]).chunks(3).map(|row| row[2]).collect::<Vec<_>>()
    };
    assert_eq!(chosen(&[0.5, 0.0, 0.9, -1.0]), [1.0, 2.0], "numbers among those with a score");
    assert_eq!(chosen(&[0.5, 0.7, 0.9, 0.1]), [2.0, 1.0, 3.0]);
    assert!(chosen(&[0.0; 4]).is_empty());
}

#[test]
fn boxes_whose_score_is_no_number_are_not_chosen() {
    let parts = [
        value(11, "boxes", &[1, 3, 4]),
        value(11, "scores", &[1, 1, 3]),
        numbers("most", &[3]),
        node("NonMaxSuppression", &["boxes", "scores", "most"], "y", &[]),
        open(12, "y", I64, &["n", "3"]),
    ];
    let network = network(&parts, &[]).unwrap();
    let boxes: Vec<f32> = [0.0f32, 5.0, 9.0].iter().flat_map(|&x| [x, 0.0, x + 1.0, 1.0]).collect();
    let scores = Array::F32(vec![0.8, f32::NAN, 0.9]);
    let made = network.execute(&[Array::F32(boxes), scores]).unwrap();
    assert_eq!(doubles(&made[0]), [0.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
}

#[test]
fn boxes_of_any_score_are_chosen_without_a_threshold() {
    for (inputs, want) in [
        (&["boxes", "scores", "most"][..], &[2.0, 0.0, 1.0][..]),
        (&["boxes", "scores", "most", "overlap", "least"][..], &[2.0, 0.0][..]),
    ] {
        let parts = [
            value(11, "boxes", &[1, 3, 4]),
            value(11, "scores", &[1, 1, 3]),
            numbers("most", &[3]),
            scalar("overlap", 0.5),
            scalar("least", f32::MIN),
            node("NonMaxSuppression", inputs, "y", &[]),
            open(12, "y", I64, &["n", "3"]),
        ];
        let network = network(&parts, &[]).unwrap();
        let boxes = [0.0f32, 5.0, 9.0].iter().flat_map(|&x| [x, 0.0, x + 1.0, 1.0]).collect();
        let scores = Array::F32(vec![0.8, f32::NEG_INFINITY, 0.9]);
        let made = network.execute(&[Array::F32(boxes), scores]).unwrap();
        let chosen: Vec<f64> = doubles(&made[0]).chunks(3).map(|row| row[2]).collect();
        assert_eq!(chosen, want);
    }
}

#[test]
fn boxes_that_do_not_fit_are_refused() {
    let say = |most: i64| {
        let parts = [
            value(11, "boxes", &[1, 20_000, 4]),
            value(11, "scores", &[1, 1, 20_000]),
            stored("most", I64, &[1], &most.to_le_bytes()),
            node("NonMaxSuppression", &["boxes", "scores", "most"], "y", &[]),
            open(12, "y", I64, &["n", "3"]),
        ];
        network(&parts, &[])
    };
    let said = say(20_000).unwrap_err();
    let want = "max_output_boxes_per_class must be at most 16384, got 20000 of 20000 boxes";
    assert!(said.contains(want), "{said}");
    assert_eq!(say(0).unwrap().outputs[0].spec.dims, [0, 3]);
}

/// Detectors with many boxes take the best of those that are left. These lie apart.
#[test]
fn no_more_boxes_are_chosen_than_are_read() {
    let parts = |output: Vec<u8>| {
        vec![
            value(11, "boxes", &[1, 20_000, 4]),
            value(11, "scores", &[1, 1, 20_000]),
            stored("most", I64, &[1], &i64::MAX.to_le_bytes()),
            node("NonMaxSuppression", &["boxes", "scores", "most"], "chosen", &[]),
            node("Constant", &[], "two", &[ints("value_ints", &[2])]),
            node("Gather", &["chosen", "two"], "column", &[int("axis", 1)]),
            node("Constant", &[], "one", &[ints("value_ints", &[1])]),
            node("Squeeze", &["column", "one"], "keep", &[]),
            node("Constant", &[], "zero", &[ints("value_ints", &[0])]),
            node("Constant", &[], "three", &[tensor("value", I64, &[1], &3i64.to_le_bytes())]),
            node("Slice", &["keep", "zero", "three", "zero"], "y", &[]),
            open(12, "y", I64, &["n"]),
            output,
        ]
    };
    let made = network(&parts(Vec::new()), &[]).unwrap();
    let boxes: Vec<f32> = (0..20_000).flat_map(|k| [k as f32, 0.0, k as f32 + 0.5, 1.0]).collect();
    let mut scores = vec![0.1f32; 20_000];
    (scores[7], scores[1500], scores[3], scores[19_999]) = (0.6, 0.9, 0.7, 0.5);
    let made = made.execute(&[Array::F32(boxes), Array::F32(scores)]).unwrap();
    assert_eq!(doubles(&made[0]), [1500.0, 3.0, 7.0]);
    // An output that has all of them needs all.
    let said = network(&parts(open(12, "keep", I64, &["m"])), &[]).unwrap_err();
    assert!(said.contains("got 20000 of 20000 boxes"), "{said}");
}

/// As torchvision's detectors: boxes are chosen in a branch, and the first of them read outside.
#[test]
fn no_more_boxes_of_a_branch_are_chosen_than_are_read() {
    let parts = |more: &[Vec<u8>]| {
        let nothing = [
            stored("nothing", I64, &[0], &[]),
            node("Identity", &["nothing"], "none", &[]),
            open(12, "none", I64, &[]),
        ];
        let some = [
            stored("most", I64, &[1], &i64::MAX.to_le_bytes()),
            node("NonMaxSuppression", &["boxes", "scores", "most"], "chosen", &[]),
            numbers("two", &[2]),
            node("Gather", &["chosen", "two"], "column", &[int("axis", 1)]),
            numbers("one", &[1]),
            node("Squeeze", &["column", "one"], "some", &[]),
            open(12, "some", I64, &[]),
        ];
        let branches = [graph("then_branch", &nothing), graph("else_branch", &some)];
        let parts = [
            value(11, "boxes", &[1, 20_000, 4]),
            value(11, "scores", &[1, 1, 20_000]),
            scalar("least", 0.5),
            node("ReduceMax", &["scores"], "best", &[int("keepdims", 0)]),
            node("Less", &["best", "least"], "is_bad", &[]),
            node("If", &["is_bad"], "keep", &branches),
            numbers("zero", &[0]),
            numbers("three", &[3]),
            node("Slice", &["keep", "zero", "three", "zero"], "y", &[]),
            open(12, "y", I64, &["n"]),
        ];
        [&parts[..], more].concat()
    };
    let made = network(&parts(&[]), &[]).unwrap();
    let boxes: Vec<f32> = (0..20_000).flat_map(|k| [k as f32, 0.0, k as f32 + 0.5, 1.0]).collect();
    let mut scores = vec![0.1f32; 20_000];
    (scores[7], scores[1500], scores[3], scores[19_999]) = (0.6, 0.9, 0.7, 0.5);
    let good = made.execute(&[Array::F32(boxes.clone()), Array::F32(scores)]).unwrap();
    assert_eq!(doubles(&good[0]), [1500.0, 3.0, 7.0]);
    let bad = made.execute(&[Array::F32(boxes), Array::F32(vec![0.1; 20_000])]).unwrap();
    assert!(doubles(&bad[0]).is_empty());
    // Of these all are read.
    let all = node("Identity", &["keep"], "z", &[]);
    for more in [vec![open(12, "keep", I64, &["m"])], vec![all, open(12, "z", I64, &["m"])]] {
        let said = network(&parts(&more), &[]).unwrap_err();
        assert!(said.contains("\"chosen\" (NonMaxSuppression)"), "{said}");
    }
}

/// The graph around has an end of that name too, for a part of something else.
#[test]
fn end_of_a_branch_hides_that_around_it() {
    let best = [
        node("NonMaxSuppression", &["boxes", "scores", "most"], "chosen", &[]),
        node("Gather", &["chosen", "two"], "column", &[int("axis", 1)]),
        node("Squeeze", &["column", "one"], "keep", &[]),
        node("Constant", &[], "end", &[ints("value_ints", &[3])]),
        node("Slice", &["keep", "zero", "end", "zero"], "best", &[]),
        open(12, "best", I64, &[]),
    ];
    let nothing = [
        node("Constant", &[], "nothing", &[ints("value_ints", &[0])]),
        open(12, "nothing", I64, &[]),
    ];
    let branches = [graph("then_branch", &best), graph("else_branch", &nothing)];
    let parts = [
        value(11, "boxes", &[1, 3, 4]),
        value(11, "scores", &[1, 1, 3]),
        stored("is", 9, &[], &[1]),
        numbers("most", &[3]),
        numbers("zero", &[0]),
        numbers("one", &[1]),
        numbers("two", &[2]),
        numbers("end", &[1]),
        node("If", &["is"], "y", &branches),
        open(12, "y", I64, &["n"]),
    ];
    let network = network(&parts, &[]).unwrap();
    let boxes: Vec<f32> = [0.0f32, 5.0, 9.0].iter().flat_map(|&x| [x, 0.0, x + 1.0, 1.0]).collect();
    let made = network.execute(&[Array::F32(boxes), Array::F32(vec![0.8, 0.7, 0.9])]).unwrap();
    assert_eq!(doubles(&made[0]), [2.0, 0.0, 1.0]);
}

#[test]
fn selections_of_constants_have_known_sizes() {
    let parts = [
        stored("x", FLOAT, &[3], &[0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 0, 64]),
        node("NonZero", &["x"], "y", &[]),
        open(12, "y", I64, &["1", "n"]),
    ];
    let network = network(&parts, &[]).unwrap();
    assert_eq!(network.outputs[0].extent, Extent::Fixed);
    assert_eq!(doubles(&network.execute(&[]).unwrap()[0]), [0.0, 2.0]);
}

#[test]
fn caches_that_do_not_fit_are_refused() {
    let say = |total: i32, past: i64, attributes: &[Vec<u8>]| {
        let number = |name, value: i32| stored(name, 6, &[1], &value.to_le_bytes());
        let inputs = ["q", "k", "v", "past_k", "past_v", "lengths", "total"];
        let parts = [
            value(11, "q", &[1, 2, 16]),
            value(11, "k", &[1, 2, 8]),
            value(11, "v", &[1, 2, 8]),
            value(11, "past_k", &[1, 2, past, 4]),
            value(11, "past_v", &[1, 2, 3, 4]),
            number("lengths", total - 1),
            number("total", total),
            node_in(
                "com.microsoft",
                "GroupQueryAttention",
                &inputs,
                &["y", "pk", "pv"],
                attributes,
            ),
            open(12, "y", FLOAT, &[]),
        ];
        network(&parts, &[]).map(drop)
    };
    let heads = |own, shared| [int("num_heads", own), int("kv_num_heads", shared)];
    say(5, 3, &heads(4, 2)).unwrap();
    let ends = |result: Result<(), String>, want: &str| {
        let said = result.unwrap_err();
        assert!(said.contains(want), "{said}");
    };
    ends(say(5, 3, &[]), "attribute num_heads must be at least 1, got 0");
    ends(say(5, 3, &heads(4, 3)), "in 3 heads");
    ends(say(5, 4, &heads(4, 2)), "a past of float32[1, 2, 4, 4]");
    ends(say(1, 3, &heads(4, 2)), "2 new tokens, 1 of all");
    let turned = [&heads(4, 2)[..], &[int("do_rotary", 1)]].concat();
    ends(say(5, 3, &turned), "do_rotary = 1 needs cos_cache and sin_cache");
    let small = [&heads(4, 2)[..], &[int("kv_cache_bit_width", 4)]].concat();
    let want = "kv_cache_bit_width must be 0, got 4, or run the file by another engine";
    ends(say(5, 3, &small), want);
    let list = [&heads(4, 2)[..], &[ints("scale", &[1])]].concat();
    ends(say(5, 3, &list), "attribute scale must be a float");
}

/// Different parts, places of their first ones, the number of each part, and how often each is.
fn different(dims: &[i64], x: &[f32], more: &[Vec<u8>]) -> Vec<Vec<f64>> {
    let names = ["y", "firsts", "numbers", "counts"];
    let mut parts = vec![value(11, "x", dims), node_of("Unique", &["x"], &names, more)];
    parts.push(open(12, "y", FLOAT, &[]));
    parts.extend(names[1..].iter().map(|name| open(12, name, I64, &[])));
    let made = network(&parts, &[]).unwrap().execute(&[Array::F32(x.to_vec())]).unwrap();
    made.iter().map(doubles).collect()
}

#[test]
fn different_rows_are_sorted_or_in_the_order_they_are_met() {
    let x = [2.0, 1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 2.0];
    let made = different(&[4, 2], &x, &[int("axis", 0)]);
    assert_eq!(made[0], [1.0, 2.0, 1.0, 3.0, 2.0, 1.0]);
    assert_eq!(made[1..], [vec![3.0, 1.0, 0.0], vec![2.0, 1.0, 2.0, 0.0], vec![1.0, 1.0, 2.0]]);
    let made = different(&[4, 2], &x, &[int("axis", -2), int("sorted", 0)]);
    assert_eq!(made[0], [2.0, 1.0, 1.0, 3.0, 1.0, 2.0]);
    assert_eq!(made[1..], [vec![0.0, 1.0, 3.0], vec![0.0, 1.0, 0.0, 2.0], vec![2.0, 1.0, 1.0]]);
}

#[test]
fn different_columns_and_elements_are_found() {
    let made = different(&[2, 3], &[1.0, 0.0, 1.0, 4.0, 4.0, 4.0], &[int("axis", 1)]);
    assert_eq!(made[0], [0.0, 1.0, 4.0, 4.0]);
    assert_eq!(made[1..], [vec![1.0, 0.0], vec![1.0, 0.0, 1.0], vec![1.0, 2.0]]);
    let made = different(&[2, 2], &[2.0, 1.0, 1.0, 3.0], &[int("sorted", 0)]);
    assert_eq!(made[0], [2.0, 1.0, 3.0]);
    assert_eq!(made[1..], [vec![0.0, 1.0, 3.0], vec![0.0, 1.0, 1.0, 2.0], vec![1.0, 2.0, 1.0]]);
    let made = different(&[1, 2], &[5.0, 4.0], &[int("axis", 0)]);
    assert_eq!(made, [vec![5.0, 4.0], vec![0.0], vec![0.0], vec![1.0]]);
}

#[test]
fn parts_of_many_elements_are_refused() {
    let unique = node("Unique", &["x"], "y", &[int("axis", 0)]);
    let parts = [value(11, "x", &[4, 65]), unique, open(12, "y", FLOAT, &[])];
    let said = network(&parts, &[]).unwrap_err();
    assert!(said.contains("along axis 0 must have 1 to 64 elements, got 65"), "{said}");
}

#[test]
fn single_number_that_is_not_0_is_at_place_0() {
    let places = [node("NonZero", &["x"], "y", &[]), value(11, "x", &[]), open(12, "y", I64, &[])];
    let network = network(&places, &[]).unwrap();
    for (x, want) in [(2.0, vec![0.0]), (0.0, vec![])] {
        assert_eq!(doubles(&network.execute(&[Array::F32(vec![x])]).unwrap()[0]), want);
    }
}
