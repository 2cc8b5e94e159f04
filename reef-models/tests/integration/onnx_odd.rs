//! Files that other programs read otherwise, or not at all, aren't read as something else.

#![cfg(feature = "onnx")]

use crate::handmade::{
    file, float, int, ints, node, ones, scalar, singles, text, texts, typed, value,
};
use reef_models::Model;
use reef_models::kinds::TensorModel;
use reef_op::tensor::Array;

/// Reads `graph` with these shapes of inputs.
fn read(graph: &[Vec<u8>], shapes: &[(&str, &[usize])]) -> Result<TensorModel, String> {
    let shapes = shapes.iter().map(|&(name, dims)| (name.to_owned(), dims.to_vec()));
    let bytes = file(17, graph);
    let read = Model::from_onnx(&bytes, "odd").tensors_only().shapes(shapes).read();
    read.map(|model| model.tensors().unwrap().clone()).map_err(|error| error.to_string())
}

/// Error of reading these nodes between `x` of 2x3 and `y`, or "fine".
fn say(nodes: &[Vec<u8>]) -> String {
    let ends = [value(11, "x", &[2, 3]), value(12, "y", &[])];
    read(&[nodes, &ends].concat(), &[]).err().unwrap_or_else(|| "fine".into())
}

fn floats(array: &Array) -> Vec<f64> {
    array.values().to_f64()
}

#[test]
fn a_value_that_is_given_takes_the_place_of_the_files() {
    let graph = [
        node("Add", &["x", "w"], "y", &[]),
        value(11, "x", &[3]),
        value(11, "w", &[3]),
        value(12, "y", &[]),
        ones("w", &[3]),
    ];
    let x = Array::F32(vec![1.0, 2.0, 3.0]);
    let usual = read(&graph, &[]).unwrap();
    assert_eq!(floats(&usual.execute(std::slice::from_ref(&x)).unwrap()[0]), [2.0, 3.0, 4.0]);
    let given = read(&graph, &[("w", &[3])]).unwrap();
    let names: Vec<_> = given.inputs.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["x", "w"]);
    let outputs = given.execute(&[x, Array::F32(vec![10.0, 20.0, 30.0])]).unwrap();
    assert_eq!(floats(&outputs[0]), [11.0, 22.0, 33.0]);
    let said = read(&graph, &[("w", &[4])]).unwrap_err();
    assert!(said.ends_with("input \"w\": size 0 is fixed to 3, 4 asked"), "{said}");
}

#[test]
fn a_value_that_is_given_decides_about_shapes_as_the_files_does() {
    let numbers = |name, given: &[i64]| node("Constant", &[], name, &[ints("value_ints", given)]);
    let shape = value(11, "count", &[]);
    let graph = [
        numbers("one", &[1]),
        node("Expand", &["count", "one"], "first", &[]),
        node("Cast", &["first"], "sizes", &[int("to", 7)]),
        node("Expand", &["x", "sizes"], "y", &[]),
        value(11, "x", &[1]),
        shape,
        value(12, "y", &[]),
        scalar("count", 2.0),
    ];
    let usual = read(&graph, &[]).unwrap();
    assert_eq!(usual.outputs[0].spec.dims, [2]);
    let values = [("count".to_owned(), (vec![], Array::F32(vec![5.0])))].into();
    let bytes = file(17, &graph);
    let given = Model::from_onnx(&bytes, "odd").values(&values).read().unwrap();
    assert_eq!(given.outputs().get(0).unwrap().1.spec.dims, [5]);
}

#[test]
fn operands_that_are_not_read_are_named() {
    assert_eq!(say(&[node("Relu", &["x"], "y", &[])]), "fine");
    assert_eq!(
        say(&[node("Relu", &["x", "x"], "y", &[])]),
        "odd: node \"y\" (Relu): operand 1 is not supported"
    );
    assert_eq!(
        say(&[node("MatMul", &["x", "w", "", "x"], "y", &[]), ones("w", &[3, 2])]),
        "odd: node \"y\" (MatMul): operand 3 is not supported"
    );
    // An operand that is left out is not read, and a ratio of what is dropped means nothing when
    // nothing is trained.
    assert_eq!(say(&[node("Relu", &["x", ""], "y", &[])]), "fine");
    assert_eq!(say(&[node("Dropout", &["x", "half"], "y", &[]), scalar("half", 0.5)]), "fine");
}

/// As [`say`], of a network for images.
fn say_image(nodes: &[Vec<u8>]) -> String {
    let ends = [value(11, "x", &[1, 2, 4, 4]), value(12, "y", &[]), ones("w", &[3, 2, 3, 3])];
    let last = node("GlobalAveragePool", &["a"], "y", &[]);
    let graph = [nodes, &[last], &ends, &[ones("b", &[2])]].concat();
    let bytes = file(17, &graph);
    let read = Model::from_onnx(&bytes, "odd").images_only().read();
    read.err().map_or_else(|| "fine".into(), |error| error.to_string())
}

#[test]
fn unread_operands_of_images_are_reported_by_number() {
    assert_eq!(say_image(&[node("Conv", &["x", "w"], "a", &[])]), "fine");
    assert_eq!(
        say_image(&[node("Relu", &["x", "w"], "a", &[])]),
        "odd: node \"a\" (Relu): operand 1 is not supported"
    );
    let half = scalar("half", 0.5);
    assert_eq!(say_image(&[node("Dropout", &["x", "half"], "a", &[]), half]), "fine");
}

/// The value that an operator has by default would make another network of it.
#[test]
fn attributes_of_another_type_are_reported_by_name() {
    let norm = |epsilon| {
        say_image(&[node("BatchNormalization", &["x", "b", "b", "b", "b"], "a", &[epsilon])])
    };
    assert_eq!(norm(float("epsilon", 1.0)), "fine");
    let at = "odd: node \"a\" (BatchNormalization): ";
    assert_eq!(norm(int("epsilon", 1)), format!("{at}attribute epsilon must be a float"));
    let conv = |attribute| say_image(&[node("Conv", &["x", "w"], "a", &[attribute])]);
    assert_eq!(conv(ints("pads", &[1; 4])), "fine");
    let at = "odd: node \"a\" (Conv): ";
    assert_eq!(conv(int("pads", 1)), format!("{at}attribute pads must be a list of integers"));
    assert_eq!(conv(int("auto_pad", 1)), format!("{at}attribute auto_pad must be text"));
    assert_eq!(conv(float("group", 1.0)), format!("{at}attribute group must be an integer"));
}

#[test]
fn error_of_an_endless_range_has_its_numbers() {
    let ranged = |start: f32, limit: f32, delta: f32| {
        let ends = [("a", start), ("b", limit), ("c", delta)].map(|(name, v)| scalar(name, v));
        say(&[node("Range", &["a", "b", "c"], "y", &[]), ends.concat()])
    };
    assert_eq!(ranged(0.0, 3.0, 1.0), "fine");
    assert_eq!(ranged(0.0, -3.0, 1.0), "fine");
    let at = "odd: node \"y\" (Range): ";
    assert_eq!(ranged(0.0, f32::NAN, 1.0), format!("{at}from 0 to NaN by 1"));
    assert_eq!(ranged(2.0, 2.0, 0.0), format!("{at}from 2 to 2 by 0"));
}

#[test]
fn one_size_is_left_open_at_most() {
    let reshaped = |sizes: &[i64]| {
        let sizes = node("Constant", &[], "s", &[ints("value_ints", sizes)]);
        say(&[sizes, node("Reshape", &["x", "s"], "y", &[])])
    };
    assert_eq!(reshaped(&[-1, 2]), "fine");
    assert_eq!(
        reshaped(&[-1, -1]),
        "odd: node \"y\" (Reshape): sizes [-1, -1], of which one may be -1"
    );
}

#[test]
fn a_network_without_inputs_is_its_constants() {
    let graph = [
        node("Relu", &["w"], "y", &[]),
        value(12, "y", &[]),
        singles("w", &[2, 2], |k| k as f32 - 1.0),
    ];
    let model = read(&graph, &[]).unwrap();
    assert_eq!(floats(&model.execute(&[]).unwrap()[0]), [0.0, 0.0, 1.0, 2.0]);
}

#[test]
fn a_vector_of_zeros_has_no_direction() {
    for p in [1, 2] {
        let graph = [
            node("LpNormalization", &["x"], "y", &[int("p", p)]),
            value(11, "x", &[3, 2]),
            value(12, "y", &[]),
        ];
        let x = Array::F32(vec![0.0, 0.0, 0.0, -4.0, 3.0, 0.0]);
        let outputs = read(&graph, &[]).unwrap().execute(&[x]).unwrap();
        assert_eq!(floats(&outputs[0]), [0.0, 0.0, 0.0, -1.0, 1.0, 0.0]);
    }
}

#[test]
fn the_largest_of_no_truths_is_false() {
    let graph = [
        node("Cast", &["x"], "truths", &[int("to", 9)]),
        node("ReduceMax", &["truths"], "any", &[ints("axes", &[0]), int("keepdims", 0)]),
        node("Cast", &["any"], "y", &[int("to", 1)]),
        value(11, "x", &[0, 2]),
        value(12, "y", &[]),
    ];
    let outputs = read(&graph, &[]).unwrap().execute(&[Array::F32(vec![])]).unwrap();
    assert_eq!(floats(&outputs[0]), [0.0, 0.0]);
}

/// A tensor without elements may be long, but not longer than one that has some.
#[test]
fn sizes_of_empty_tensors_have_an_end() {
    let turned = |dims: &[i64]| {
        let ends = [value(11, "x", dims), value(12, "y", &[])];
        let graph = [&[node("Transpose", &["x"], "y", &[])][..], &ends].concat();
        read(&graph, &[]).err().unwrap_or_else(|| "fine".into())
    };
    assert_eq!(turned(&[0, 1 << 10]), "fine");
    for dims in [[0, 1 << 60], [1 << 60, 0]] {
        let said = turned(&dims);
        assert!(said.ends_with(&format!("a tensor of {dims:?} is out of range")), "{said}");
    }
}

#[test]
fn weights_that_have_no_end_are_no_states() {
    let graph = [
        node("LSTM", &["x", "w", "r"], "y", &[]),
        value(11, "x", &[2, 1, 1]),
        value(11, "w", &[1, 0, 1]),
        value(11, "r", &[1, 0, 1 << 62]),
        value(12, "y", &[]),
    ];
    let said = read(&graph, &[]).unwrap_err();
    assert!(said.contains("out of range"), "{said}");
}

#[test]
fn an_empty_cache_stays_empty_wherever_tokens_go() {
    let graph = [
        node("TensorScatter", &["x", "new", "at"], "y", &[]),
        value(11, "x", &[2, 4, 0]),
        value(11, "new", &[2, 1, 0]),
        typed(11, "at", 7, &[2]),
        value(12, "y", &[]),
    ];
    assert_eq!(read(&graph, &[]).unwrap().outputs[0].spec.dims, [2, 4, 0]);
}

#[test]
fn a_list_of_texts_is_no_list_of_numbers() {
    let said = say(&[node("Transpose", &["x"], "y", &[texts("perm", &["1", "0"])])]);
    assert_eq!(said, "odd: node \"y\" (Transpose): attribute perm must be a list of integers");
    let said = say_image(&[node("Conv", &["x", "w"], "a", &[texts("pads", &["1"])])]);
    assert_eq!(said, "odd: node \"a\" (Conv): attribute pads must be a list of integers");
}

/// Since operator set 28; a shift by more bits than there are leaves the sign.
#[test]
fn shifts_to_the_right_keep_the_sign() {
    let shift = node("BitShift", &["x", "by"], "y", &[text("direction", "RIGHT")]);
    let graph = [shift, typed(11, "x", 6, &[4]), typed(11, "by", 6, &[4]), value(12, "y", &[])];
    let bytes = file(28, &graph);
    let model = Model::from_onnx(&bytes, "odd").tensors_only().read().unwrap();
    let inputs = [vec![-8, 8, -1, i32::MIN], vec![1, 2, 40, -1]].map(Array::I32);
    let made = model.tensors().unwrap().execute(&inputs).unwrap();
    assert_eq!(made[0], Array::I32(vec![-4, 2, -1, -1]));
}
