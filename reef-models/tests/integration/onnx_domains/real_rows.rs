//! Rows behind those that data decide about change no number, and a size that they would change is
//! refused. Wanted numbers are ONNX Runtime's meaning of each graph, by hand.

use super::selections::{counted, made_of_rows, refused_of_rows, rows};
use super::{network, numbers};
use crate::handmade::{
    int, ints, node, node_in, node_of, ones, open, scalar, singles, stored, text,
};

const FLOAT: i64 = 1;
const MS: &str = "com.microsoft";
const X: [f32; 6] = [1.0, 2.0, 0.0, 3.0, 4.0, 5.0];

/// As [`counted`], with `m`, the number of rows of `x` whose second column isn't 0.
fn counted_twice(more: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let parts = [
        stored("second", 7, &[], &1i64.to_le_bytes()),
        node("Gather", &["x", "second"], "other_column", &[int("axis", 1)]),
        node("Cast", &["other_column"], "other_keep", &[int("to", 9)]),
        node("Compress", &["x", "other_keep"], "other", &[int("axis", 0)]),
        node("Shape", &["other"], "other_sizes", &[]),
        node("Slice", &["other_sizes", "begin", "one"], "m", &[]),
    ];
    counted(&[&parts[..], more].concat())
}

#[test]
fn sum_of_as_many_ones_as_data_decide_is_no_known_number() {
    let parts = counted(&[
        numbers("two", &[2]),
        node("Slice", &["sizes", "one", "two"], "width", &[]),
        node("ConstantOfShape", &["n"], "zeros", &[]),
        node("Cast", &["zeros"], "whole", &[int("to", 7)]),
        node("Add", &["whole", "width"], "all", &[]),
        node("ReduceSum", &["all"], "end", &[int("keepdims", 0)]),
        stored("zero", 7, &[], &0i64.to_le_bytes()),
        stored("step", 7, &[], &1i64.to_le_bytes()),
        node("Range", &["zero", "end", "step"], "z", &[]),
    ]);
    refused_of_rows(&parts, "\"z\" (Range): the values of input [\"x\"] decide about");
}

#[test]
fn one_number_of_rows_is_not_expanded_to_another() {
    let row = |of: &str| {
        [
            stored("place", 7, &[], &0i64.to_le_bytes()),
            node("Gather", &["y", "place"], "numbers", &[int("axis", 1)]),
            node("Unsqueeze", &["numbers", "begin"], "row", &[]),
            node("Concat", &["one", of], "wanted", &[int("axis", 0)]),
            node("Expand", &["row", "wanted"], "z", &[]),
        ]
    };
    let want = "data decide about two numbers of rows, of which one may be expanded to the other";
    refused_of_rows(&counted_twice(&row("m")), want);
    let same = [&row("n")[..], &[open(12, "z", FLOAT, &["1", "n"])]].concat();
    assert_eq!(made_of_rows(&counted(&same), X), [1.0, 4.0]);
    let at_least_one = [node("Max", &["n", "one"], "wide", &[])];
    let same = [&at_least_one[..], &row("wide"), &[open(12, "z", FLOAT, &["1", "n"])]].concat();
    assert_eq!(made_of_rows(&counted(&same), X), [1.0, 4.0]);
    assert_eq!(made_of_rows(&counted(&same), [0.0; 6]), [0.0; 0]);
}

#[test]
fn fixed_size_is_not_expanded_to_a_number_of_data() {
    let expanded = |dims: &[i64]| {
        counted(&[
            singles("fixed", dims, |k| k as f32),
            node("Expand", &["fixed", "n"], "z", &[]),
            open(12, "z", FLOAT, &["n"]),
        ])
    };
    refused_of_rows(&expanded(&[3]), "data decide to what a fixed size is expanded");
    assert_eq!(made_of_rows(&expanded(&[1]), X), [0.0, 0.0]);
}

#[test]
fn row_is_expanded_to_many_that_data_decide() {
    let parts = counted(&[
        ones("wide", &[1, 4000]),
        numbers("columns", &[4000]),
        node("Concat", &["n", "columns"], "wanted", &[int("axis", 0)]),
        node("Expand", &["wide", "wanted"], "z", &[]),
        open(12, "z", FLOAT, &["n", "4000"]),
    ]);
    assert_eq!(made_of_rows(&parts, X), vec![1.0; 8000]);
}

#[test]
fn shape_of_which_data_decide_several_sizes_is_refused() {
    let of = |x: &str, list: &[&str]| {
        let attributes = [int("axis", 0)];
        let parts = [
            numbers("columns", &[0, 1, 0]),
            node("Gather", &["y", "columns"], "wide", &[int("axis", 1)]),
            numbers("rest", &[-1]),
            numbers("same", &[0]),
            numbers("two", &[2]),
            node("Concat", list, "wanted", &attributes),
            node("Reshape", &[x, "wanted"], "z", &[]),
        ];
        counted_twice(&parts)
    };
    let shaped = |list: &[&str]| of("y", list);
    let want = "data decide about several sizes of a shape";
    refused_of_rows(&shaped(&["m", "rest"]), want);
    refused_of_rows(&of("wide", &["same", "m"]), want);
    refused_of_rows(&of("wide", &["n", "m"]), want);
    let made = |list: &[&str], dims: &[&str]| {
        made_of_rows(&[&shaped(list)[..], &[open(12, "z", FLOAT, dims)]].concat(), X)
    };
    assert_eq!(made(&["n", "rest"], &["n", "2"]), [1.0, 2.0, 4.0, 5.0]);
    assert_eq!(made(&["n", "two"], &["n", "2"]), [1.0, 2.0, 4.0, 5.0]);
    assert_eq!(made(&["rest", "two"], &["n", "2"]), [1.0, 2.0, 4.0, 5.0]);
}

/// As heads of detectors join a list of one, and write boxes of each class anew.
#[test]
fn equal_numbers_of_rows_leave_the_rest_of_a_shape_open() {
    let attributes = [int("axis", 0)];
    let shaped = |before: &[Vec<u8>], list: &[&str]| {
        let parts = [
            numbers("rest", &[-1]),
            node("Concat", list, "wanted", &attributes),
            node("Reshape", &["joined", "wanted"], "z", &[]),
            open(12, "z", FLOAT, &["n", "k"]),
        ];
        made_of_rows(&counted_twice(&[before, &parts[..]].concat()), X)
    };
    let one = [node("Concat", &["y"], "joined", &attributes)];
    assert_eq!(shaped(&one, &["n", "rest"]), [1.0, 2.0, 4.0, 5.0]);
    let flat = [numbers("flat", &[-1]), node("Reshape", &["y", "flat"], "joined", &[])];
    assert_eq!(shaped(&flat, &["n", "rest"]), [1.0, 2.0, 4.0, 5.0]);
    let sorted = [node_of("TopK", &["column", "n"], &["joined", "places"], &[])];
    assert_eq!(shaped(&sorted, &["n", "rest"]).len(), 2);
    let two = [
        node("Concat", &["y", "other"], "joined", &attributes),
        node("Add", &["n", "m"], "all", &[]),
    ];
    let all = [1.0, 2.0, 4.0, 5.0, 1.0, 2.0, 0.0, 3.0, 4.0, 5.0];
    assert_eq!(shaped(&two, &["all", "rest"]), all);
}

#[test]
fn least_and_greatest_of_two_numbers_of_rows_are_neither() {
    let part = |more: &[Vec<u8>], x: [f32; 6]| {
        let parts = [
            singles("three", &[3], |k| k as f32),
            node("Slice", &["three", "begin", "size"], "z", &[]),
            open(12, "z", FLOAT, &["k"]),
        ];
        made_of_rows(&counted_twice(&[more, &parts[..]].concat()), x).len()
    };
    // Rows of `y` and of `other`: 2 and 3, 3 and 1.
    for (x, least, most) in [(X, 2, 3), ([1.0, 0.0, 2.0, 0.0, 3.0, 1.0], 1, 3)] {
        for (op, want) in [("Min", least), ("Max", most)] {
            assert_eq!(part(&[node(op, &["n", "m"], "size", &[])], x), want, "{op}");
            assert_eq!(part(&[node(op, &["m", "n"], "size", &[])], x), want, "{op}");
            let joined = [
                node("Concat", &["m", "n"], "both", &[int("axis", 0)]),
                node(&format!("Reduce{op}"), &["both"], "size", &[int("keepdims", 1)]),
            ];
            assert_eq!(part(&joined, x), want, "{op}");
        }
    }
}

/// Three images of two pixels at most, of which data decide the number.
fn images(more: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let parts = [
        numbers("image", &[-1, 1, 2]),
        node("Reshape", &["y", "image"], "images", &[]),
        open(12, "z", FLOAT, &["n", "1", "4"]),
    ];
    [&parts[..], more].concat()
}

#[test]
fn number_of_images_is_resized_by_nothing() {
    let by = |inputs: &[&str], attributes: &[Vec<u8>]| {
        let parts = [
            numbers("all", &[3, 1, 4]),
            numbers("pixels", &[4]),
            numbers("rest", &[1, 4]),
            node("Concat", &["n", "rest"], "own", &[int("axis", 0)]),
            singles("factors", &[3], |k| [1.0, 1.0, 2.0][k as usize]),
            singles("wider", &[2], |k| [2.0, 1.0][k as usize]),
            singles("longer", &[2], |k| [1.0, 2.0][k as usize]),
            singles("more", &[3], |k| [1.1, 1.0, 2.0][k as usize]),
            singles("part", &[6], |k| [0.25, 0.0, 0.0, 1.0, 1.0, 1.0][k as usize]),
            singles("whole", &[6], |k| f32::from(u8::from(k > 2))),
            node("Resize", inputs, "z", attributes),
        ];
        counted(&images(&parts))
    };
    let doubled = [1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 5.0, 5.0];
    let crop = text("coordinate_transformation_mode", "tf_crop_and_resize");
    let axes = ints("axes", &[-1]);
    assert_eq!(made_of_rows(&by(&["images", "", "factors"], &[]), X), doubled);
    assert_eq!(made_of_rows(&by(&["images", "", "", "pixels"], &[axes]), X), doubled);
    let crops = std::slice::from_ref(&crop);
    assert_eq!(made_of_rows(&by(&["images", "whole", "factors"], crops), X), doubled);
    let corners = text("coordinate_transformation_mode", "align_corners");
    let turned = |list: &str| by(&["images", "", list], &[ints("axes", &[2, 0])]);
    assert_eq!(made_of_rows(&turned("wider"), X), doubled);
    let refused = [
        turned("longer"),
        by(&["images", "", "", "own"], &[text("keep_aspect_ratio_policy", "not_smaller")]),
        by(&["images", "", "", "all"], &[]),
        by(&["images", "", "more"], &[corners]),
        by(&["images", "part", "factors"], crops),
    ];
    for parts in refused {
        let said = network(&rows(&parts), &[]).map(drop).unwrap_err();
        assert!(said.contains("(Resize): data decide about a size of operand 0"), "{said}");
    }
}

#[test]
fn matrices_whose_number_data_decide_have_one_matrix_for_all() {
    let by = |dims: &[i64]| {
        [
            numbers("matrices", &[-1, 1, 2]),
            node("Reshape", &["y", "matrices"], "many", &[]),
            ones("w", dims),
            node("MatMul", &["many", "w"], "z", &[]),
        ]
    };
    refused_of_rows(&by(&[3, 2, 1]), "\"z\" (MatMul): data decide about a size of operand 0");
    for dims in [&[1, 2, 1][..], &[2, 1]] {
        let parts = [&by(dims)[..], &[open(12, "z", FLOAT, &["n", "1", "1"])]].concat();
        assert_eq!(made_of_rows(&parts, X), [3.0, 9.0]);
    }
}

#[test]
fn quantized_matrices_have_one_matrix_for_all() {
    let by = |dims: &[i64]| {
        let elements = dims.iter().product::<i64>() as usize;
        let inputs = ["q", "s", "zero", "w", "s", "zero", "s", "zero"];
        [
            numbers("matrices", &[-1, 1, 2]),
            node("Reshape", &["y", "matrices"], "many", &[]),
            scalar("s", 1.0),
            stored("zero", 2, &[], &[0]),
            node("QuantizeLinear", &["many", "s", "zero"], "q", &[]),
            stored("w", 2, dims, &vec![1; elements]),
            node("QLinearMatMul", &inputs, "product", &[]),
            node("DequantizeLinear", &["product", "s", "zero"], "z", &[]),
        ]
    };
    let want = "\"product\" (QLinearMatMul): data decide about a size of operand 0";
    refused_of_rows(&by(&[3, 2, 1]), want);
    let parts = [&by(&[2, 1])[..], &[open(12, "z", FLOAT, &["n", "1", "1"])]].concat();
    assert_eq!(made_of_rows(&parts, X), [3.0, 9.0]);
}

#[test]
fn images_are_no_filters_of_themselves() {
    let parts = [
        numbers("image", &[-1, 1, 1, 2]),
        node("Reshape", &["y", "image"], "images", &[]),
        node_in(MS, "FusedConv", &["images", "images"], &["z"], &[text("activation", "Relu")]),
    ];
    refused_of_rows(&parts, "\"z\" (FusedConv): data decide about a size of operand 0");
}

#[test]
fn integers_behind_the_real_ones_are_in_no_logarithm_of_a_sum() {
    let parts = |axis: i64| {
        [
            node("Cast", &["y"], "whole", &[int("to", 6)]),
            numbers("axes", &[axis]),
            node("ReduceLogSumExp", &["whole", "axes"], "z", &[int("keepdims", 0)]),
        ]
    };
    refused_of_rows(&parts(0), "\"z\" (ReduceLogSumExp): data decide about a size of operand 0");
    let more = [&parts(1)[..], &[open(12, "z", 6, &["n"])]].concat();
    network(&rows(&more), &[]).unwrap();
}

#[test]
fn axes_whose_number_data_decide_are_refused() {
    for op in ["Unsqueeze", "Squeeze"] {
        let parts = [
            node("NonZero", &["x"], "places", &[]),
            stored("first", 7, &[], &0i64.to_le_bytes()),
            node("Gather", &["places", "first"], "axes", &[]),
            node(op, &["y", "axes"], "z", &[]),
        ];
        let said = network(&rows(&[&parts[..], &[open(12, "z", FLOAT, &[])]].concat()), &[]);
        let said = said.map(drop).unwrap_err();
        assert!(said.contains(&format!("\"z\" ({op}): ")), "{said}");
    }
}

#[test]
fn padding_of_the_largest_integers_overflows_nowhere() {
    let fixed =
        [numbers("pads", &[i64::MIN, 0, i64::MAX, 0]), node("Pad", &["x", "pads"], "z", &[])];
    let made = network(&rows(&[&fixed[..], &[open(12, "z", FLOAT, &[])]].concat()), &[]);
    let made = made.unwrap(); // 2 rows of those that x does not have
    let made = made.execute(&[reef_op::tensor::Array::F32(X.to_vec())]).unwrap();
    assert_eq!(super::doubles(&made[0]), [0.0; 4]);
    for end in [i64::MAX, i64::MIN] {
        let parts = counted(&[
            numbers("before", &[0, 0]),
            numbers("end", &[end]),
            node("Add", &["n", "end"], "rows_behind", &[]),
            numbers("none", &[0]),
            node("Concat", &["before", "rows_behind", "none"], "pads", &[int("axis", 0)]),
            node("Pad", &["y", "pads"], "z", &[]),
        ]);
        let said = network(&rows(&[&parts[..], &[open(12, "z", FLOAT, &[])]].concat()), &[]);
        let said = said.map(drop).unwrap_err();
        let is_of_pad = said.contains("\"z\" (Pad): ");
        assert!(is_of_pad, "padding with {end} rows more: {said}");
    }
}
