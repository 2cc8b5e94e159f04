//! `If`: decided when the network is read, or by both branches.

use super::{assert_near, doubles, network, outputs};
use crate::handmade::{graph, int, ints, node, node_of, open, scalar, value};
use reef_op::tensor::Array;

const FLOAT: i64 = 1;

/// `squeeze(1)` of an axis of open size, as PyTorch writes it.
fn squeezed() -> Vec<Vec<u8>> {
    let numbers = |name, list: &[i64]| node("Constant", &[], name, &[ints("value_ints", list)]);
    let then = graph(
        "then_branch",
        &[
            numbers("axes", &[1]),
            node("Squeeze", &["x", "axes"], "then", &[]),
            value(12, "then", &[]),
        ],
    );
    let other =
        graph("else_branch", &[node("Identity", &["x"], "else", &[]), value(12, "else", &[])]);
    vec![
        node("Shape", &["x"], "shape", &[]),
        numbers("one", &[1]),
        node("Gather", &["shape", "one"], "size", &[]),
        node("Equal", &["size", "one"], "is_one", &[]),
        node("If", &["is_one"], "chosen", &[then, other]),
        node("Add", &["chosen", "chosen"], "y", &[]),
        open(11, "x", FLOAT, &["n", "c", "2"]),
        open(12, "y", FLOAT, &[]),
    ]
}

#[test]
fn shapes_decide_about_a_branch() {
    let one = network(&squeezed(), &[("x", &[2, 1, 2])]).unwrap();
    assert_eq!(one.outputs[0].spec.dims, [2, 2]);
    let made = one.execute(&[Array::F32(vec![1.0, 2.0, 3.0, 4.0])]).unwrap();
    assert_near(&made[0], &[2.0, 4.0, 6.0, 8.0]);
    let two = network(&squeezed(), &[("x", &[1, 2, 2])]).unwrap();
    assert_eq!(two.outputs[0].spec.dims, [1, 2, 2]);
}

/// A branch with values of its own, and one that reads what is around it.
fn chosen_by_data(then: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let then = graph("then_branch", &[then, vec![value(12, "t", &[])]].concat());
    let other = graph("else_branch", &[node("Neg", &["x"], "e", &[]), value(12, "e", &[])]);
    vec![
        node("ReduceSum", &["x"], "sum", &[int("keepdims", 0)]),
        scalar("zero", 0.0),
        node("Greater", &["sum", "zero"], "is_positive", &[]),
        node("If", &["is_positive"], "y", &[then, other]),
        open(11, "x", FLOAT, &["2"]),
        open(12, "y", FLOAT, &[]),
    ]
}

#[test]
fn data_chooses_between_results_of_both_branches() {
    let graph = chosen_by_data(vec![scalar("three", 3.0), node("Mul", &["x", "three"], "t", &[])]);
    for (x, want) in [([1.0, 2.0], [3.0, 6.0]), ([1.0, -2.0], [-1.0, 2.0])] {
        let made = outputs(&graph, &[2], Array::F32(x.to_vec()));
        assert_eq!(doubles(&made[0]), want);
    }
}

#[test]
fn branches_of_other_shapes_need_a_known_condition() {
    let graph = chosen_by_data(vec![node("ReduceSum", &["x"], "t", &[int("keepdims", 0)])]);
    let said = network(&graph, &[]).unwrap_err();
    assert!(said.contains("\"y\" (If)") && said.contains('x'), "{said}");
}

#[test]
fn branches_may_differ_in_results_that_nothing_reads() {
    let branch = |name: &str, op: &str| {
        let parts = [
            node("ReduceSum", &["x"], "sum", &[int("keepdims", i64::from(op == "Abs"))]),
            node(op, &["x"], "made", &[]),
            value(12, "sum", &[]),
            value(12, "made", &[2]),
        ];
        graph(name, &parts)
    };
    let branches = [branch("then_branch", "Abs"), branch("else_branch", "Neg")];
    let parts = [
        node("ReduceSum", &["x"], "total", &[int("keepdims", 0)]),
        node("Cast", &["total"], "is", &[int("to", 9)]),
        node_of("If", &["is"], &["", "y"], &branches),
        open(11, "x", FLOAT, &["2"]),
        open(12, "y", FLOAT, &["2"]),
    ];
    for (x, want) in [([1.0, -2.0], [1.0, 2.0]), ([1.0, -1.0], [-1.0, 1.0])] {
        assert_eq!(doubles(&outputs(&parts, &[2], Array::F32(x.to_vec()))[0]), want);
    }
}

#[test]
fn branches_that_are_none_are_refused() {
    let graph_of = |attributes: &[Vec<u8>]| {
        let parts = [
            node_of("If", &["c"], &["y"], attributes),
            open(11, "c", 9, &[]),
            open(12, "y", FLOAT, &[]),
        ];
        network(&parts, &[]).unwrap_err()
    };
    let said = graph_of(&[int("then_branch", 1), int("else_branch", 1)]);
    assert!(said.ends_with("attribute then_branch must be a graph"), "{said}");
    let empty = [graph("then_branch", &[]), graph("else_branch", &[])];
    assert!(graph_of(&empty).contains("a branch must have 1 outputs, got 0"));
}

/// Graphs that lie in each other without end would take the stack.
#[test]
fn graphs_in_graphs_have_an_end() {
    let mut parts = vec![node("Identity", &["c"], "y", &[])];
    for _ in 0..40 {
        let inner = graph("then_branch", &parts);
        parts = vec![node_of("If", &["c"], &["y"], &[inner])];
    }
    let said = network(&parts, &[]).unwrap_err();
    assert!(said.contains("graphs lie more than 16 deep in each other"), "{said}");
}
