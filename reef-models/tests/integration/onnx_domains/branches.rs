//! `If`: decided when the network is read, or by both branches. Functions of a file.

use super::{assert_near, doubles, network, outputs};
use crate::handmade::{
    bytes, file, graph, int, ints, node, node_in, node_of, number, open, scalar, sequence, value,
};
use reef_models::Model;
use reef_op::tensor::{Array, Element};

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

/// A function of domain `own`, whose nodes stand as those of a graph.
fn function(
    name: &str,
    [inputs, outputs]: [&[&str]; 2],
    nodes: &[Vec<u8>],
    more: &[Vec<u8>],
) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|input| bytes(4, input)).collect();
    let outputs: Vec<u8> = outputs.iter().flat_map(|output| bytes(5, output)).collect();
    // A node is field 1 of a graph, and field 7 of a function.
    let node = |node: &Vec<u8>| [&[7 << 3 | 2], &node[1..]].concat();
    let nodes: Vec<u8> = nodes.iter().flat_map(node).collect();
    let parts = [bytes(1, name), inputs, outputs, nodes, bytes(10, "own"), more.concat()];
    bytes(25, parts.concat())
}

/// Neither the functions nor the branches of one are deeper than they may be by themselves.
#[test]
fn branches_in_functions_in_branches_have_an_end() {
    let result = || open(12, "y", FLOAT, &[]);
    let level = |number: usize| {
        let mut inner = match number {
            15 => node("Neg", &["x"], "y", &[]),
            _ => node_in("own", &format!("F{}", number + 1), &["x"], &["y"], &[]),
        };
        for _ in 0..8 {
            let other = [node("Identity", &["x"], "y", &[]), result()];
            let then = graph("then_branch", &[inner, result()]);
            inner = node("If", &["c"], "y", &[then, graph("else_branch", &other)]);
        }
        let condition = node("Constant", &[], "c", &[int("value_int", 1)]);
        function(&format!("F{number}"), [&["x"], &["y"]], &[condition, inner], &[])
    };
    let functions: Vec<Vec<u8>> = (0..16).map(level).collect();
    let first = node_in("own", "F0", &["x"], &["y"], &[]);
    let said = of_functions(&[first], &functions).unwrap_err();
    assert!(said.contains("graphs and functions lie more than 48 deep in each other"), "{said}");
}

/// An attribute that is one of the function around.
fn referring(name: &str, to: &str) -> Vec<u8> {
    bytes(5, [bytes(1, name), bytes(21, to)].concat())
}

/// Results of a file with these functions for `x` of three numbers.
fn of_functions(nodes: &[Vec<u8>], functions: &[Vec<u8>]) -> Result<Vec<f64>, String> {
    let ends = [open(11, "x", FLOAT, &["3"]), open(12, "y", FLOAT, &[])];
    let bytes = [file(21, &[nodes, &ends].concat()), functions.concat()].concat();
    let read = Model::from_onnx(&bytes, "made").tensors_only().read();
    let model = read.map_err(|error| error.to_string())?;
    let made = model.tensors().unwrap().execute(&[Array::F32(vec![-2.0, -1.0, 3.0])]).unwrap();
    Ok(doubles(&made[0]))
}

#[test]
fn overload_chooses_between_functions_of_one_name() {
    let of = |op: &str, overload: &str| {
        let body = [node(op, &["a"], "b", &[])];
        function("F", [&["a"], &["b"]], &body, &[bytes(13, overload)])
    };
    let functions = [of("Neg", ""), of("Abs", "size"), of("Sign", "sign")];
    let made = |overload: &str| {
        let parts = [bytes(1, "x"), bytes(2, "y"), bytes(4, "F"), bytes(7, "own")].concat();
        let call = bytes(1, [parts, bytes(8, overload)].concat());
        of_functions(&[call], &functions)
    };
    assert_eq!(made("").unwrap(), [2.0, 1.0, -3.0]);
    assert_eq!(made("size").unwrap(), [2.0, 1.0, 3.0]);
    assert_eq!(made("sign").unwrap(), [-1.0, -1.0, 1.0]);
    assert!(made("other").unwrap_err().contains("operators of domain \"own\" are not supported"));
}

/// `Softmax` flattened its axes before operator set 13: of `[1, 3, 1]` all three numbers are a row
/// then, and of its last axis each is one.
#[test]
fn function_has_an_operator_set_of_its_own() {
    let body = [node("Softmax", &["a"], "b", &[])];
    let made = |version: i64| {
        let opset = bytes(9, number(2, version));
        let own = function("F", [&["a"], &["b"]], &body, &[opset]);
        let nodes = [
            node("Constant", &[], "sizes", &[ints("value_ints", &[1, 3, 1])]),
            node("Reshape", &["x", "sizes"], "a", &[]),
            node_in("own", "F", &["a"], &["y"], &[]),
        ];
        of_functions(&nodes, &[own])
    };
    assert_eq!(made(21).unwrap(), [1.0, 1.0, 1.0]);
    let sum = (-5f64).exp() + (-4f64).exp() + 1.0;
    let old = made(12).unwrap();
    assert!((old[2] - 1.0 / sum).abs() < 1e-6, "{old:?}");
    assert!(made(99).unwrap_err().contains("operator set 99 (have: 7 to 28) is not supported"));
}

/// The inner function's attribute is the outer one's, which has a default.
#[test]
fn attributes_are_handed_from_function_to_function() {
    let slope = bytes(11, [bytes(1, "slope"), [0x15, 0, 0, 0, 0x3f].to_vec()].concat()); // 0.5
    let body = [node("LeakyRelu", &["a"], "b", &[referring("alpha", "low")])];
    let inner = function("Inner", [&["a"], &["b"]], &body, &[bytes(6, "low")]);
    let body = [node_in("own", "Inner", &["a"], &["b"], &[referring("low", "slope")])];
    let outer = function("Outer", [&["a"], &["b"]], &body, &[slope]);
    let made = |attributes: &[Vec<u8>]| {
        let call = node_in("own", "Outer", &["x"], &["y"], attributes);
        of_functions(&[call], &[inner.clone(), outer.clone()]).unwrap()
    };
    assert_eq!(made(&[]), [-1.0, -0.5, 3.0]);
    assert_eq!(made(&[crate::handmade::float("slope", 0.25)]), [-0.5, -0.25, 3.0]);
}

#[test]
fn function_may_have_operands_and_results_that_are_left_out() {
    // The bounds of a Clip, of which the caller may give one, and a result of them that is unread.
    let body =
        [node("Clip", &["a", "low", "high"], "b", &[]), node("Identity", &["b"], "same", &[])];
    let ports: [&[&str]; 2] = [&["a", "low", "high"], &["same", "b"]];
    let limits = function("Limits", ports, &body, &[]);
    let made = |inputs: &[&str], outputs: &[&str]| {
        let call = node_in("own", "Limits", inputs, outputs, &[]);
        of_functions(&[call, scalar("one", 1.0)], std::slice::from_ref(&limits))
    };
    assert_eq!(made(&["x"], &["y"]).unwrap(), [-2.0, -1.0, 3.0]);
    assert_eq!(made(&["x", "", "one"], &["", "y"]).unwrap(), [-2.0, -1.0, 1.0]);
    assert_eq!(made(&["x", "one", ""], &["y"]).unwrap(), [1.0, 1.0, 3.0]);
    let said = made(&["x", "one", "one", "x"], &["y"]).unwrap_err();
    assert!(said.ends_with("must have at most 3 operands and 2 results, got 4 and 1"), "{said}");
}

/// The axis of a sequence's parts, and of what is put together of them, is the function's.
#[test]
fn sequences_in_a_function_take_its_attributes() {
    let body = [
        node("SplitToSequence", &["a"], "parts", &[referring("axis", "axis"), int("keepdims", 0)]),
        node(
            "ConcatFromSequence",
            &["parts"],
            "b",
            &[referring("axis", "axis"), int("new_axis", 1)],
        ),
    ];
    let own = function("Parts", [&["a"], &["b"]], &body, &[]);
    let nodes = [
        node("Constant", &[], "sizes", &[ints("value_ints", &[1, 3])]),
        node("Reshape", &["x", "sizes"], "a", &[]),
        node_in("own", "Parts", &["a"], &["y"], &[int("axis", 1)]),
    ];
    assert_eq!(of_functions(&nodes, &[own]).unwrap(), [-2.0, -1.0, 3.0]);
}

#[test]
fn sequences_go_into_functions_and_out_of_them() {
    let parts = [node("SplitToSequence", &["a"], "list", &[int("keepdims", 0)])];
    let rest = [
        node("SequenceErase", &["list"], "fewer", &[]),
        node("ConcatFromSequence", &["fewer"], "b", &[int("axis", 0), int("new_axis", 1)]),
    ];
    let functions = [
        function("Parts", [&["a"], &["list"]], &parts, &[]),
        function("Rest", [&["list"], &["b"]], &rest, &[]),
    ];
    let nodes = [
        node_in("own", "Parts", &["x"], &["each"], &[]),
        node_in("own", "Rest", &["each"], &["y"], &[]),
    ];
    assert_eq!(of_functions(&nodes, &functions).unwrap(), [-2.0, -1.0]);
    let wrong = [nodes[0].clone(), node("Add", &["x", "each"], "y", &[])];
    let said = of_functions(&wrong, &functions).unwrap_err();
    assert!(said.contains("(Add): a sequence as an operand of Add is not supported"), "{said}");
}

#[test]
fn data_choose_between_sequences_of_one_length() {
    let branch = |name: &str, tensors: &[&str]| {
        graph(name, &[node("SequenceConstruct", tensors, "made", &[]), value(12, "made", &[])])
    };
    let chosen = |other: &[&str]| {
        let branches = [branch("then_branch", &["x", "minus"]), branch("else_branch", other)];
        let parts = [
            node("Neg", &["x"], "minus", &[]),
            node("ReduceSum", &["x"], "sum", &[int("keepdims", 0)]),
            scalar("zero", 0.0),
            node("Greater", &["sum", "zero"], "is_positive", &[]),
            node("If", &["is_positive"], "list", &branches),
            node("Constant", &[], "first", &[ints("value_ints", &[0])]),
            node("SequenceAt", &["list", "first"], "y", &[]),
            open(11, "x", FLOAT, &["2"]),
            open(12, "y", FLOAT, &[]),
        ];
        network(&parts, &[])
    };
    let network = chosen(&["minus", "x"]).unwrap();
    for (x, want) in [([1.0, 2.0], [1.0, 2.0]), ([1.0, -2.0], [-1.0, 2.0])] {
        let made = network.execute(&[Array::F32(x.to_vec())]).unwrap();
        assert_eq!(doubles(&made[0]), want);
    }
    assert!(chosen(&["x"]).unwrap_err().contains("\"list\" (If)"));
}

#[test]
fn sequence_as_an_output_is_its_tensors() {
    let parts = [
        node("Constant", &[], "sizes", &[ints("value_ints", &[1, 2])]),
        node("SplitToSequence", &["x", "sizes"], "parts", &[]),
        node("Neg", &["x"], "y", &[]),
        open(11, "x", FLOAT, &["3"]),
        sequence(12, "parts", FLOAT, &[], false),
        open(12, "y", FLOAT, &["3"]),
    ];
    let network = network(&parts, &[]).unwrap();
    let names: Vec<_> = network.outputs.iter().map(|port| &*port.name).collect();
    assert_eq!(names, ["parts.0", "parts.1", "y"]);
    let made = network.execute(&[Array::F32(vec![1.0, 2.0, 3.0])]).unwrap();
    let made: Vec<_> = made.iter().map(doubles).collect();
    assert_eq!(made, [vec![1.0], vec![2.0, 3.0], vec![-1.0, -2.0, -3.0]]);
}

/// Their sizes are known once they are given.
#[test]
fn sizes_of_parts_may_be_an_input() {
    let parts = [
        node("SplitToSequence", &["x", "sizes"], "y", &[]),
        open(11, "x", FLOAT, &["3"]),
        open(11, "sizes", 7, &["2"]),
        sequence(12, "y", FLOAT, &[], false),
    ];
    let bytes = file(21, &parts);
    let opened = || Model::from_onnx(&bytes, "made").tensors_only();
    let said = opened().read().unwrap_err().to_string();
    assert!(said.contains("the values of input [\"sizes\"] decide about shapes"), "{said}");
    let values = [("sizes".to_owned(), (vec![2], Array::I64(vec![2, 1])))].into();
    let model = opened().values(&values).read().unwrap();
    let made = model.tensors().unwrap().execute(&[Array::F32(vec![1.0, 2.0, 3.0])]).unwrap();
    assert_eq!(made.iter().map(doubles).collect::<Vec<_>>(), [vec![1.0, 2.0], vec![3.0]]);
}

/// Adds `x` to each tensor of a sequence of numbers, and gives its number as well.
fn added(is_optional: bool) -> Vec<Vec<u8>> {
    let body = graph(
        "body",
        &[
            value(11, "item", &[]),
            value(11, "more", &[]),
            node("Add", &["item", "more"], "sum", &[]),
            value(12, "sum", &[]),
        ],
    );
    vec![
        node("OptionalHasElement", &["list"], "is_there", &[]),
        node("OptionalGetElement", &["list"], "same", &[]),
        node("SequenceMap", &["same", "x"], "sums", &[body]),
        node("SequenceLength", &["list"], "length", &[]),
        sequence(11, "list", FLOAT, &[1], is_optional),
        value(11, "x", &[1]),
        sequence(12, "sums", FLOAT, &[], false),
        open(12, "length", 7, &[]),
        open(12, "is_there", 9, &[]),
    ]
}

#[test]
fn sequence_as_an_input_is_its_tensors() {
    for is_optional in [false, true] {
        let parts = added(is_optional);
        let model = network(&parts, &[("list", &[2])]).unwrap();
        let names: Vec<_> = model.inputs.iter().map(|port| &*port.name).collect();
        assert_eq!(names, ["list.0", "list.1", "x"]);
        let given = [1.0, 2.0, 10.0].map(|number| Array::F32(vec![number]));
        let made = model.execute(&given).unwrap();
        let made: Vec<_> = made.iter().map(doubles).collect();
        assert_eq!(made, [vec![11.0], vec![12.0], vec![2.0], vec![1.0]]);
        let none = network(&parts, &[("list", &[0])]).unwrap();
        let made = none.execute(&[Array::F32(vec![10.0])]).unwrap();
        assert_eq!(made.iter().map(doubles).collect::<Vec<_>>(), [vec![0.0], vec![1.0]]);
        let by_items = network(&parts, &[("list.0", &[1]), ("list.1", &[1])]).unwrap();
        assert_eq!(by_items.inputs.len(), 3);
    }
}

#[test]
fn sequence_as_an_input_needs_a_length() {
    let say = |shapes: &[(&str, &[usize])]| network(&added(false), shapes).unwrap_err();
    let said = say(&[]);
    assert!(said.contains("input \"list\": it is a sequence: choose its number"), "{said}");
    let said = say(&[("list", &[1, 2])]);
    assert!(said.contains("its shape must be its number of tensors, got [1, 2]"), "{said}");
    let said = say(&[("list", &[2]), ("list.2", &[1])]);
    assert!(said.contains("input \"list.2\": the network has no such input or size"), "{said}");
    let said = say(&[("list", &[2]), ("list.01", &[1])]);
    assert!(said.contains("input \"list.01\": the network has no such input or size"), "{said}");
    let said = say(&[("list", &[2]), ("list.1", &[3])]);
    assert!(said.contains("tensor 1 of it: size 0 is fixed to 1, 3 asked"), "{said}");
}

#[test]
fn tensors_of_a_sequence_have_names_of_their_own() {
    let parts = [
        node("SequenceLength", &["list"], "length", &[]),
        sequence(11, "list", FLOAT, &[1], false),
        value(11, "list.1", &[1]),
        open(12, "length", 7, &[]),
    ];
    let said = network(&parts, &[("list", &[2])]).unwrap_err();
    assert!(said.contains("input \"list\": \"list.1\" is a tensor of it, and another"), "{said}");
    assert_eq!(network(&parts, &[("list", &[1])]).unwrap().inputs.len(), 2);
    let parts = [
        node("SequenceConstruct", &["x", "x"], "y", &[]),
        node("Neg", &["x"], "y.0", &[]),
        value(11, "x", &[1]),
        sequence(12, "y", FLOAT, &[1], false),
        value(12, "y.0", &[1]),
    ];
    let said = network(&parts, &[]).unwrap_err();
    assert!(said.contains("output \"y\": \"y.0\" is a tensor of it, and another"), "{said}");
}

#[test]
fn sequences_of_a_map_have_one_length() {
    let body = graph(
        "body",
        &[
            value(11, "a", &[]),
            value(11, "b", &[]),
            node("Add", &["a", "b"], "sum", &[]),
            value(12, "sum", &[]),
        ],
    );
    let parts = [
        node("SequenceConstruct", &["x", "x"], "two", &[]),
        node("SequenceConstruct", &["x"], "one", &[]),
        node("SequenceMap", &["two", "one"], "y", &[body]),
        open(11, "x", FLOAT, &["2"]),
        sequence(12, "y", FLOAT, &[], false),
    ];
    let said = network(&parts, &[]).unwrap_err();
    assert!(said.contains("(SequenceMap): sequences must have one length, got 2 and 1"), "{said}");
}

/// A decoder whose graphs are merged: one has the rows of a cache, and the other has none.
#[test]
fn given_truth_value_chooses_between_branches_of_other_shapes() {
    let both = [node("Concat", &["past", "x"], "with", &[int("axis", 0)]), value(12, "with", &[])];
    let alone = [node("Neg", &["x"], "without", &[]), value(12, "without", &[])];
    let branches = [graph("then_branch", &both), graph("else_branch", &alone)];
    let parts = [
        node("If", &["use_cache"], "y", &branches),
        open(11, "x", FLOAT, &["1", "2"]),
        open(11, "use_cache", 9, &["1"]),
        open(11, "past", FLOAT, &["rows", "2"]),
        open(12, "y", FLOAT, &["all", "2"]),
    ];
    let bytes = file(17, &parts);
    let opened = || Model::from_onnx(&bytes, "made").tensors_only().shape("past", &[2, 2]);
    let said = opened().read().unwrap_err().to_string();
    assert!(said.contains("the values of input [\"use_cache\"] decide about shapes"), "{said}");
    assert_eq!(opened().read_usual().unwrap().inputs().len(), 3);
    for (holds, want) in [(1, &[3.0, 4.0, 5.0, 6.0, 1.0, 2.0][..]), (0, &[-1.0, -2.0][..])] {
        let truth = Array::from_le_bytes(Element::Bool, &[holds]);
        let values = [("use_cache".to_owned(), (vec![1], truth))].into();
        let model = opened().values(&values).read().unwrap();
        let network = model.tensors().unwrap();
        let names: Vec<_> = network.inputs.iter().map(|port| &*port.name).collect();
        assert_eq!(names, ["x", "past"]);
        let x = Array::F32(vec![1.0, 2.0]);
        let past = Array::F32(vec![3.0, 4.0, 5.0, 6.0]);
        let made = network.execute(&[x.clone(), past.clone()]).unwrap();
        assert_eq!(doubles(&made[0]), want);
        let kept = opened().kept_values(&values).read().unwrap();
        let network = kept.tensors().unwrap();
        let names: Vec<_> = network.inputs.iter().map(|port| &*port.name).collect();
        assert_eq!(names, ["x", "use_cache", "past"]);
        let unread = Array::from_le_bytes(Element::Bool, &[1]);
        assert_eq!(doubles(&network.execute(&[x, unread, past]).unwrap()[0]), want);
    }
}

/// As ONNX Runtime does, also where a graph in a node reads what a later node makes.
#[test]
fn nodes_are_sorted_where_a_file_has_them_otherwise() {
    let then = [node("Mul", &["doubled", "x"], "t", &[]), value(12, "t", &[])];
    let other = graph("else_branch", &[node("Neg", &["x"], "e", &[]), value(12, "e", &[])]);
    let branches = [graph("then_branch", &then), other];
    let parts = [
        node("Add", &["chosen", "one"], "y", &[]),
        node("If", &["is_positive"], "chosen", &branches),
        node("Greater", &["sum", "zero"], "is_positive", &[]),
        node("ReduceSum", &["x"], "sum", &[int("keepdims", 0)]),
        node("Add", &["x", "x"], "doubled", &[]),
        scalar("zero", 0.0),
        scalar("one", 1.0),
        open(11, "x", FLOAT, &["2"]),
        open(12, "y", FLOAT, &[]),
    ];
    for (x, want) in [([1.0, 2.0], [3.0, 9.0]), ([1.0, -2.0], [0.0, 3.0])] {
        assert_eq!(doubles(&outputs(&parts, &[2], Array::F32(x.to_vec()))[0]), want);
    }
}
