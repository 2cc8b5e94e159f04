//! `Loop` and `Scan`: what is known when the network is read, and what isn't. `runtime.rs` compares
//! their results.

use super::network;
use crate::handmade::{graph, int, ints, node, node_of, open, scalar, value};

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
    assert!(said.ends_with("give it a trip count of at most 16384"), "{said}");
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
    assert!(said.ends_with("loops have more than 16384 iterations"), "{said}");
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
