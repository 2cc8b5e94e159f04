//! `Loop` and `Scan`: what is known when the network is read, and what isn't. `runtime.rs` compares
//! their results.

use super::{doubles, network};
use crate::handmade::{graph, int, ints, node, node_of, open, scalar, value};
use reef_op::tensor::Array;

const FLOAT: i64 = 1;
const BOOL: i64 = 9;

fn whole(name: &str, numbers: &[i64]) -> Vec<u8> {
    node("Constant", &[], name, &[ints("value_ints", numbers)])
}

/// A body that adds `x` to what it carries, and goes on while `still` does.
fn adding(still: &str, more: &[Vec<u8>]) -> Vec<u8> {
    let parts = [
        open(11, "i", 7, &[]),
        open(11, "going", BOOL, &[]),
        open(11, "h", FLOAT, &[]),
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

#[test]
fn loop_that_data_end_needs_a_bound() {
    let ended = |count: i64| looped(whole("count", &[count]), adding("small", &[]), &["y"]);
    ended(100).unwrap();
    let said = ended(i64::MAX).unwrap_err();
    assert!(said.contains("(Loop): data decide about the number of iterations"), "{said}");
    let remedy = "give it a trip count of at most 16384, or run the file by another engine";
    assert!(said.ends_with(remedy), "{said}");
}

#[test]
fn loop_of_unknown_count_is_refused_with_its_inputs() {
    let counted = [open(11, "count", 7, &["1"])].concat();
    let said = looped(counted, adding("same", &[]), &["y"]).unwrap_err();
    assert!(said.contains("(Loop): the values of input [\"count\"] decide"), "{said}");
}

#[test]
fn results_of_each_iteration_need_a_known_number() {
    let part = value(12, "most", &[]);
    let said = looped(whole("count", &[3]), adding("small", &[part]), &["y", "parts"]).unwrap_err();
    assert!(said.contains("(Loop): the values of input [\"x\"] decide"), "{said}");
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
        open(11, "i", 7, &[]),
        open(11, "going", BOOL, &[]),
        open(11, "h", FLOAT, &[]),
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

/// A loop of three iterations that carries a sequence, and what is made of its last one.
fn with_lists(first: Vec<u8>, body: &[Vec<u8>], last: Vec<u8>) -> Result<Vec<f64>, String> {
    let ports = [
        open(11, "i", 7, &[]),
        open(11, "going", BOOL, &[]),
        open(11, "s", FLOAT, &[]),
        node("Identity", &["going"], "same", &[]),
    ];
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
    assert!(said.contains("(Loop): ") && said.contains("a sequence of 3 or 2 tensors"), "{said}");
}
