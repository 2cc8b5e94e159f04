//! `Loop` and `Scan`: what is known when the network is read, and what isn't. `runtime.rs` compares
//! their results.

use super::{doubles, network};
use crate::handmade::{file, graph, int, ints, node, node_of, open, scalar, singles, value};
use reef_models::{Error, Extent, Model};
use reef_op::tensor::Array;
use std::collections::BTreeMap;

const FLOAT: i64 = 1;
const BOOL: i64 = 9;

fn whole(name: &str, numbers: &[i64]) -> Vec<u8> {
    node("Constant", &[], name, &[ints("value_ints", numbers)])
}

/// Inputs of a body: its iteration, whether it goes on, and what it carries.
fn state_inputs([at, going, state]: [&str; 3]) -> Vec<u8> {
    [open(11, at, 7, &[]), open(11, going, BOOL, &[]), open(11, state, FLOAT, &[])].concat()
}

/// A body that adds `x` to what it carries, and goes on while `still` does.
fn adding(still: &str, more: &[Vec<u8>]) -> Vec<u8> {
    let parts = [
        state_inputs(["i", "going", "h"]),
        node("Add", &["h", "x"], "sum", &[]),
        node("ReduceMax", &["sum"], "most", &[int("keepdims", 0)]),
        node("Less", &["most", "bound"], "small", &[]),
        node("Identity", &["going"], "same", &[]),
        open(12, still, BOOL, &[]),
        value(12, "sum", &[2]),
    ];
    graph("body", &[&parts[..], more].concat())
}

/// A loop of this count, which ends as `body` says.
fn looped(count: Vec<u8>, body: Vec<u8>, outputs: &[&str]) -> Result<(), String> {
    let parts = [
        count,
        scalar("bound", 5.0),
        node_of("Loop", &["count", "", "x"], outputs, &[body]),
        value(11, "x", &[2]),
        value(12, "y", &[2]),
    ];
    network(&parts, &[]).map(drop)
}

/// A loop that adds `x` until its largest number is 5 or more, and gives this number each time.
/// `bound` is the caller's.
fn until_five(count: &str, counts: &[Vec<u8>], bound: Option<usize>) -> Result<Model, Error> {
    let body = adding("small", &[value(12, "most", &[])]);
    let parts = [
        scalar("bound", 5.0),
        node_of("Loop", &[count, "", "x"], &["y", "parts"], &[body]),
        value(11, "x", &[2]),
        value(12, "y", &[2]),
        open(12, "parts", FLOAT, &["n"]),
    ];
    let bytes = file(21, &[counts, &parts[..]].concat());
    Model::from_onnx(&bytes, "made").tensors_only().loop_bound(bound).read()
}

/// Its outputs for `x`.
fn made_of(model: &Model, x: [f32; 2]) -> Result<[Vec<f64>; 2], Error> {
    let made = model.tensors().unwrap().execute(&[Array::F32(x.to_vec())])?;
    Ok([doubles(&made[0]), doubles(&made[1])])
}

#[test]
fn loop_that_data_end_has_64_iterations_at_most() {
    let endless = until_five("", &[], None);
    let counts =
        [i64::MAX, 20_000].map(|count| until_five("count", &[whole("count", &[count])], None));
    for model in counts.into_iter().chain([endless]) {
        let model = model.unwrap();
        let outputs = &model.tensors().unwrap().outputs;
        assert!(matches!(outputs[1].extent, Extent::Bounded { axis: 0, .. }));
        let made = made_of(&model, [1.0, 2.0]).unwrap();
        assert_eq!(made, [vec![3.0, 6.0], vec![4.0, 6.0]]);
        assert_eq!(made_of(&model, [0.125, 0.0]).unwrap()[1].len(), 39);
        assert_eq!(made_of(&model, [5.0, 0.0]).unwrap()[1], [10.0]);
        let error = made_of(&model, [0.0; 2]).unwrap_err();
        assert_eq!(error, Error::Unended { at: "node \"node\" (Loop): 64 iterations".into() });
        assert!(
            error.to_string().ends_with("a higher bound of its loops (`loop_bound`)"),
            "{error}"
        );
    }
}

#[test]
fn bound_of_a_loop_is_the_trip_count_or_the_callers() {
    let rows = |count: i64, bound| {
        let model = until_five("count", &[whole("count", &[count])], bound).unwrap();
        made_of(&model, [0.125, 0.0]).map(|made| made[1].len())
    };
    assert_eq!(rows(100, None).unwrap(), 39);
    assert_eq!(rows(3, None).unwrap(), 3);
    assert_eq!(rows(3, Some(38)).unwrap(), 3);
    for count in [100, i64::MAX] {
        assert_eq!(rows(count, Some(39)).unwrap(), 39);
        let error = rows(count, Some(38)).unwrap_err().to_string();
        assert!(error.starts_with("node \"node\" (Loop): 38 iterations: "), "{error}");
    }
}

/// As many iterations as the sum of `x`, an integer.
#[test]
fn trip_count_that_data_compute_is_followed() {
    let body = adding("same", &[value(12, "most", &[])]);
    let parts = [
        node("ReduceSum", &["x"], "total", &[int("keepdims", 0)]),
        node("Cast", &["total"], "count", &[int("to", 7)]),
        scalar("bound", 0.0),
        node_of("Loop", &["count", "", "x"], &["y", "parts"], &[body]),
        value(11, "x", &[2]),
        value(12, "y", &[2]),
        open(12, "parts", FLOAT, &["n"]),
    ];
    let bytes = file(21, &parts);
    let model = Model::from_onnx(&bytes, "made").tensors_only().read().unwrap();
    let made = |x| made_of(&model, x);
    assert_eq!(made([1.0, 2.0]).unwrap(), [vec![4.0, 8.0], vec![4.0, 6.0, 8.0]]);
    assert_eq!(made([-1.0, 0.5]).unwrap(), [vec![-1.0, 0.5], vec![]]);
    assert_eq!(made([64.0, 0.0]).unwrap()[1].len(), 64);
    assert!(matches!(made([65.0, 0.0]), Err(Error::Unended { .. })));
}

/// Both branches are computed, and the loop of the one would go on.
#[test]
fn loop_in_a_branch_that_is_not_taken_may_go_on() {
    let looped = node_of("Loop", &["", "", "x"], &["t"], &[adding("small", &[])]);
    let then = graph("then_branch", &[looped, value(12, "t", &[2])]);
    let other = graph("else_branch", &[node("Neg", &["x"], "e", &[]), value(12, "e", &[2])]);
    let parts = [
        scalar("bound", 5.0),
        scalar("zero", 0.0),
        node("ReduceMax", &["x"], "largest", &[int("keepdims", 0)]),
        node("Greater", &["largest", "zero"], "is_positive", &[]),
        node("If", &["is_positive"], "y", &[then, other]),
        value(11, "x", &[2]),
        value(12, "y", &[2]),
    ];
    let network = network(&parts, &[]).unwrap();
    let made = |x: [f32; 2]| network.execute(&[Array::F32(x.to_vec())]);
    assert_eq!(doubles(&made([1.0, 2.0]).unwrap()[0]), [3.0, 6.0]);
    assert_eq!(doubles(&made([-1.0, 0.0]).unwrap()[0]), [1.0, 0.0]);
    assert!(matches!(made([0.01, 0.0]), Err(Error::Unended { .. })));
}

/// The inner loop ends if the outer one is at most at its second iteration, which is its last.
#[test]
fn loop_in_an_iteration_that_is_not_reached_may_go_on() {
    let inner = graph(
        "body",
        &[
            state_inputs(["j", "on", "g"]),
            node("Sub", &["g", "one"], "less", &[]),
            node("Less", &["h", "limit"], "early", &[]), // of the outer loop: false ends this one
            node("Identity", &["early"], "again", &[]),
            open(12, "again", BOOL, &[]),
            value(12, "less", &[]),
        ],
    );
    let body = graph(
        "body",
        &[
            state_inputs(["i", "going", "h"]),
            node_of("Loop", &["", "", "h"], &["down"], &[inner]),
            node("Sub", &["h", "x"], "sum", &[]),
            node("Greater", &["sum", "limit"], "large", &[]),
            open(12, "large", BOOL, &[]),
            value(12, "sum", &[]),
            value(12, "down", &[]),
        ],
    );
    let parts = [
        scalar("one", 1.0),
        scalar("limit", 2.0),
        scalar("first", 5.0),
        node_of("Loop", &["", "", "first"], &["y", "parts"], &[body]),
        value(11, "x", &[]),
        value(12, "y", &[]),
        open(12, "parts", FLOAT, &["n"]),
    ];
    let bytes = file(21, &parts);
    let model = Model::from_onnx(&bytes, "made").tensors_only().loop_bound(8).read().unwrap();
    let made = model.tensors().unwrap().execute(&[Array::F32(vec![2.0])]).unwrap();
    assert_eq!(made.iter().map(doubles).collect::<Vec<_>>(), [vec![1.0], vec![4.0, 2.0]]);
}

/// The loop in the middle has one iteration, in which the innermost one ends, and then none.
#[test]
fn loop_in_a_body_that_never_runs_may_go_on() {
    let innermost = graph(
        "body",
        &[
            state_inputs(["k", "more", "q"]),
            node("Sub", &["q", "one"], "less", &[]),
            node("Greater", &["less", "limit"], "again", &[]),
            open(12, "again", BOOL, &[]),
            value(12, "less", &[]),
        ],
    );
    let middle = graph(
        "body",
        &[
            state_inputs(["j", "on", "s"]),
            node_of("Loop", &["", "", "s"], &["down"], &[innermost]),
            node("Identity", &["on"], "still", &[]),
            node("Neg", &["down"], "part", &[]),
            open(12, "still", BOOL, &[]),
            value(12, "down", &[]),
            value(12, "part", &[]),
        ],
    );
    let body = graph(
        "body",
        &[
            state_inputs(["i", "going", "h"]),
            node("Sub", &["first", "i"], "count", &[]),
            node_of("Loop", &["count", "", "h"], &["g"], &[middle]),
            node("Mul", &["h", "h"], "square", &[]),
            node("Identity", &["going"], "same", &[]),
            open(12, "same", BOOL, &[]),
            value(12, "square", &[]),
        ],
    );
    let parts = [
        scalar("one", 1.0),
        scalar("limit", 2.0),
        whole("first", &[1]),
        whole("twice", &[2]),
        node_of("Loop", &["twice", "", "x"], &["y"], &[body]),
        value(11, "x", &[]),
        value(12, "y", &[]),
    ];
    let bytes = file(21, &parts);
    let model = Model::from_onnx(&bytes, "made").tensors_only().loop_bound(8).read().unwrap();
    let made = |x| model.tensors().unwrap().execute(&[Array::F32(vec![x])]);
    assert_eq!(doubles(&made(5.0).unwrap()[0]), [625.0], "25 in the body that never runs");
    assert!(matches!(made(20.0), Err(Error::Unended { .. })));
}

#[test]
fn loop_of_unknown_count_is_refused_with_its_inputs() {
    let counted = [open(11, "count", 7, &["1"])].concat();
    let said = looped(counted, adding("same", &[]), &["y"]).unwrap_err();
    assert!(said.contains("(Loop): the values of input [\"count\"] decide"), "{said}");
}

/// The network of these parts for these values of `x`.
fn read_for(parts: &[Vec<u8>], dims: &[usize], x: &[f32]) -> Model {
    let values = BTreeMap::from([("x".to_owned(), (dims.to_vec(), Array::F32(x.to_vec())))]);
    let bytes = file(21, parts);
    Model::from_onnx(&bytes, "made").tensors_only().kept_values(&values).read().unwrap()
}

/// Given the values, the number of iterations is known.
#[test]
fn loop_whose_sizes_grow_until_data_end_it_wants_values() {
    let body = [
        state_inputs(["i", "going", "h"]),
        node("Concat", &["h", "x"], "more", &[int("axis", 0)]),
        node("ReduceSum", &["more"], "sum", &[int("keepdims", 0)]),
        node("Less", &["sum", "bound"], "small", &[]),
        open(12, "small", BOOL, &[]),
        open(12, "more", FLOAT, &[]),
    ];
    let parts = [
        scalar("bound", 5.0),
        node_of("Loop", &["", "", "x"], &["y"], &[graph("body", &body)]),
        value(11, "x", &[2]),
        open(12, "y", FLOAT, &["n"]),
    ];
    let said = network(&parts, &[]).unwrap_err();
    assert!(said.contains("(Loop): the values of input [\"x\"] decide"), "{said}");
    let model = read_for(&parts, &[2], &[1.0, 1.0]);
    assert_eq!(made_of_one(&model, &[0.0; 2]).unwrap(), [1.0; 6]);
}

/// The only output for `x`.
fn made_of_one(model: &Model, x: &[f32]) -> Result<Vec<f64>, Error> {
    let made = model.tensors().unwrap().execute(&[Array::F32(x.to_vec())])?;
    Ok(doubles(&made[0]))
}

/// Iterations after the third one have no row of the table.
#[test]
fn iterations_that_data_never_reach_may_not_fit() {
    let body = [
        state_inputs(["i", "going", "h"]),
        node("Gather", &["table", "i"], "row", &[]),
        node("Add", &["h", "row"], "sum", &[]),
        node("Less", &["sum", "bound"], "small", &[]),
        open(12, "small", BOOL, &[]),
        open(12, "sum", FLOAT, &[]),
    ];
    let parts = [
        singles("table", &[3], |k| k as f32 + 1.0),
        scalar("bound", 5.0),
        node_of("Loop", &["", "", "x"], &["y"], &[graph("body", &body)]),
        value(11, "x", &[]),
        value(12, "y", &[]),
    ];
    let said = network(&parts, &[]).unwrap_err();
    let why = "must be below 3, got 3, in iteration 3, which `loop_bound` may leave out: ";
    assert!(said.contains(why), "{said}");
    assert!(said.contains("the values of input [\"x\"] decide"), "{said}");
    let model = read_for(&parts, &[], &[1.0]);
    assert_eq!(made_of_one(&model, &[0.0]).unwrap(), [7.0]);
    let bytes = file(21, &parts);
    let model = Model::from_onnx(&bytes, "made").tensors_only().loop_bound(3).read().unwrap();
    assert_eq!(made_of_one(&model, &[1.0]).unwrap(), [7.0]);
    assert!(matches!(made_of_one(&model, &[-9.0]), Err(Error::Unended { .. })));
}

/// The window of the fourth iteration ends with the table.
#[test]
fn results_that_data_never_reach_may_not_fit() {
    let body = [
        state_inputs(["i", "going", "h"]),
        node("Unsqueeze", &["i", "front"], "from", &[]),
        node("Add", &["from", "two"], "to", &[]),
        node("Slice", &["table", "from", "to"], "window", &[]),
        node("Add", &["h", "one"], "sum", &[]),
        node("Less", &["sum", "bound"], "small", &[]),
        open(12, "small", BOOL, &[]),
        open(12, "sum", FLOAT, &[]),
        open(12, "window", FLOAT, &[]),
    ];
    let bytes = file(
        21,
        &[
            whole("front", &[0]),
            whole("two", &[2]),
            scalar("one", 1.0),
            scalar("bound", 5.0),
            singles("table", &[4], |k| k as f32 + 1.0),
            node_of("Loop", &["", "", "x"], &["y", "windows"], &[graph("body", &body)]),
            value(11, "x", &[]),
            open(12, "windows", FLOAT, &["n", "2"]),
        ],
    );
    let read =
        |bound: usize| Model::from_onnx(&bytes, "made").tensors_only().loop_bound(bound).read();
    let said = read(4).unwrap_err().to_string();
    assert!(said.contains("(Loop): the values of input [\"x\"] decide"), "{said}");
    assert_eq!(made_of_one(&read(3).unwrap(), &[3.0]).unwrap(), [1.0, 2.0, 2.0, 3.0]);
}

#[test]
fn iterations_of_all_loops_have_a_bound() {
    let said = looped(whole("count", &[20_000]), adding("same", &[]), &["y"]).unwrap_err();
    assert!(said.contains("loops have more than 16384 iterations: "), "{said}");
}

#[test]
fn bodies_that_do_not_fit_are_refused() {
    let said = looped(whole("count", &[2]), int("body", 1), &["y"]).unwrap_err();
    assert!(said.ends_with("attribute body must be a graph"), "{said}");
    let said = looped(whole("count", &[2]), graph("body", &[]), &["y"]).unwrap_err();
    assert!(said.contains("its body must have 3 inputs and at least 2 outputs, got 0"), "{said}");
    let said = looped(whole("count", &[2]), adding("same", &[]), &["y", "z"]).unwrap_err();
    assert!(said.ends_with("its body must have 2 results, got 1"), "{said}");
}

/// Sums of rows, which also gives how many there were.
fn scanned(attributes: &[Vec<u8>]) -> Result<(), String> {
    let body = graph(
        "body",
        &[
            open(11, "s", FLOAT, &[]),
            open(11, "row", FLOAT, &[]),
            node("Add", &["s", "row"], "sum", &[]),
            node("Neg", &["sum"], "part", &[]),
            value(12, "sum", &[3]),
            value(12, "part", &[3]),
        ],
    );
    let attributes = [&[body], attributes].concat();
    let parts = [
        node_of("Scan", &["zero", "x"], &["y", "parts"], &attributes),
        value(11, "x", &[2, 3]),
        value(11, "zero", &[3]),
        value(12, "y", &[3]),
        value(12, "parts", &[]),
    ];
    network(&parts, &[]).map(drop)
}

#[test]
fn scan_that_does_not_fit_is_refused() {
    scanned(&[int("num_scan_inputs", 1)]).unwrap();
    let said = scanned(&[]).unwrap_err();
    assert!(said.ends_with("attribute num_scan_inputs is missing"), "{said}");
    let said = scanned(&[int("num_scan_inputs", 3)]).unwrap_err();
    assert!(said.ends_with("3 sequences are missing"), "{said}");
    let axes = ints("scan_input_axes", &[0, 1]);
    let said = scanned(&[int("num_scan_inputs", 1), axes]).unwrap_err();
    assert!(said.ends_with("attribute scan_input_axes must have 1 numbers, got 2"), "{said}");
    let axes = ints("scan_input_axes", &[2]);
    assert!(scanned(&[int("num_scan_inputs", 1), axes]).is_err());
}

/// A body that takes row `i` of `x`, which has no rows, so that it can't be read.
fn of_each_row(part: Vec<u8>) -> Vec<u8> {
    let parts = [
        state_inputs(["i", "going", "h"]),
        node("Gather", &["x", "i"], "row", &[]),
        node("Add", &["h", "row"], "sum", &[]),
        node("Neg", &["row"], "part", &[]),
        node("Identity", &["going"], "same", &[]),
        open(12, "same", BOOL, &[]),
        value(12, "sum", &[2]),
        part,
    ];
    graph("body", &parts)
}

#[test]
fn loop_over_rows_of_nothing_gives_what_the_body_declares() {
    let looped = |part: Vec<u8>| {
        let parts = [
            node("Shape", &["x"], "sizes", &[]),
            whole("first", &[0]),
            node("Gather", &["sizes", "first"], "count", &[]),
            node_of("Loop", &["count", "", "z"], &["y", "parts"], &[of_each_row(part)]),
            value(11, "x", &[0, 2]),
            value(11, "z", &[2]),
            value(12, "y", &[2]),
            value(12, "parts", &[0, 2]),
        ];
        let network = network(&parts, &[]).unwrap();
        let made = network.execute(&[Array::F32(vec![]), Array::F32(vec![1.0, 2.0])]).unwrap();
        assert_eq!((doubles(&made[0]), made[1].len()), (vec![1.0, 2.0], 0));
        network.outputs[1].spec.dims.clone()
    };
    assert_eq!(looped(value(12, "part", &[2])), [0, 2]);
    assert_eq!(looped(open(12, "part", FLOAT, &["columns"])), [0, 0]);
}

#[test]
fn scan_over_nothing_gives_its_state_and_no_rows() {
    let scanned = |row: Vec<u8>| {
        let body = graph(
            "body",
            &[
                open(11, "s", FLOAT, &[]),
                open(11, "row", FLOAT, &[]),
                row,
                node("Add", &["s", "used"], "sum", &[]),
                value(12, "sum", &[3]),
                value(12, "used", &[3]),
            ],
        );
        let attributes = [body, int("num_scan_inputs", 1), ints("scan_output_axes", &[-1])];
        let parts = [
            node_of("Scan", &["z", "x"], &["y", "rows"], &attributes),
            value(11, "x", &[0, 3]),
            value(11, "z", &[3]),
            value(12, "y", &[3]),
            value(12, "rows", &[3, 0]),
        ];
        let network = network(&parts, &[]).unwrap();
        let made = network.execute(&[Array::F32(vec![]), Array::F32(vec![1.0, 2.0, 3.0])]).unwrap();
        assert_eq!(doubles(&made[0]), [1.0, 2.0, 3.0]);
        assert_eq!(network.outputs[1].spec.dims, [3, 0]);
    };
    scanned(node("Identity", &["row"], "used", &[]));
    scanned(node("Transpose", &["row"], "used", &[ints("perm", &[1, 0])])); // it can't be read
}

/// All tensors of operator set 8 have a batch before what the body gets, and the lengths of the
/// sequences stand before the state.
#[test]
fn scan_of_operator_set_8_goes_through_a_batch() {
    let read = |lengths: &str, x: &[i64], more: &[Vec<u8>]| {
        let body = graph(
            "body",
            &[
                open(11, "s", FLOAT, &[]),
                open(11, "row", FLOAT, &[]),
                node("Add", &["s", "row"], "sum", &[]),
                node("Identity", &["sum"], "part", &[]),
                value(12, "sum", &[1]),
                value(12, "part", &[1]),
            ],
        );
        let attributes = [&[body, int("num_scan_inputs", 1)], more].concat();
        let parts = [
            node_of("Scan", &[lengths, "z", "x"], &["y", "parts"], &attributes),
            value(11, "z", &[2, 1]),
            value(11, "x", x),
            value(12, "y", &[2, 1]),
            value(12, "parts", &[2, 3, 1]),
        ];
        let bytes = file(8, &parts);
        let read = Model::from_onnx(&bytes, "made").tensors_only().read();
        read.map(|model| model.tensors().unwrap().clone()).map_err(|error| error.to_string())
    };
    let made = |more: &[Vec<u8>]| {
        let network = read("", &[2, 3, 1], more).unwrap();
        assert_eq!(network.outputs[1].spec.dims, [2, 3, 1]);
        let x = Array::F32(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let made = network.execute(&[Array::F32(vec![0.0, 10.0]), x]).unwrap();
        [doubles(&made[0]), doubles(&made[1])].concat()
    };
    assert_eq!(made(&[]), [6.0, 25.0, 1.0, 3.0, 6.0, 14.0, 19.0, 25.0]);
    let backward = [ints("directions", &[1])];
    assert_eq!(made(&backward), [6.0, 25.0, 3.0, 5.0, 6.0, 16.0, 21.0, 25.0]);
    let said = read("x", &[2, 3, 1], &[]).unwrap_err();
    assert!(said.contains("sequences have lengths of their own in operator set 8"), "{said}");
    let said = read("", &[3, 3, 1], &[]).unwrap_err();
    assert!(said.contains("operands must have one batch of at least 1, got "), "{said}");
}

/// A loop of three iterations that carries a sequence, and what is made of its last one.
fn with_lists(first: Vec<u8>, body: &[Vec<u8>], last: Vec<u8>) -> Result<Vec<f64>, String> {
    let ports = [state_inputs(["i", "going", "s"]), node("Identity", &["going"], "same", &[])];
    let parts = [
        whole("count", &[3]),
        whole("front", &[0]),
        scalar("bound", 15.0),
        first,
        node_of(
            "Loop",
            &["count", "", "first"],
            &["last"],
            &[graph("body", &[&ports[..], body].concat())],
        ),
        last,
        value(11, "x", &[3, 2]),
        value(12, "y", &[]),
    ];
    let x = Array::F32(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    network(&parts, &[]).map(|network| doubles(&network.execute(&[x]).unwrap()[0]))
}

#[test]
fn loop_appends_to_a_sequence() {
    let body = [
        node("Gather", &["x", "i"], "row", &[]),
        node("SequenceInsert", &["s", "row", "front"], "more", &[]),
        open(12, "same", BOOL, &[]),
        value(12, "more", &[]),
    ];
    let joined = node("ConcatFromSequence", &["last"], "y", &[int("axis", 0), int("new_axis", 1)]);
    let made = with_lists(node("SequenceEmpty", &[], "first", &[]), &body, joined);
    assert_eq!(made.unwrap(), [5.0, 6.0, 3.0, 4.0, 1.0, 2.0]);
}

/// Each iteration adds `x`, until a number is 15 or more: that of the second one is 18.
#[test]
fn sequence_of_a_loop_that_data_end_keeps_its_length() {
    let sum = [
        node("SequenceAt", &["s", "front"], "h", &[]),
        node("Add", &["h", "x"], "sum", &[]),
        node("ReduceMax", &["sum"], "most", &[int("keepdims", 0)]),
        node("Less", &["most", "bound"], "small", &[]),
        open(12, "small", BOOL, &[]),
    ];
    let first = node("SequenceConstruct", &["x"], "first", &[]);
    let at = node("SequenceAt", &["last", "front"], "y", &[]);
    let with = |more: Vec<u8>| {
        let body = [&sum[..], &[more, value(12, "more", &[])]].concat();
        with_lists(first.clone(), &body, at.clone())
    };
    let made = with(node("SequenceConstruct", &["sum"], "more", &[]));
    assert_eq!(made.unwrap(), [3.0, 6.0, 9.0, 12.0, 15.0, 18.0]);
    let said = with(node("SequenceInsert", &["s", "sum"], "more", &[])).unwrap_err();
    assert!(said.contains("(Loop): the values of input [\"x\"] decide"), "{said}");
}
