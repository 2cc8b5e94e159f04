//! Sizes that a file leaves open, and tensors without elements.

use super::{doubles, network, numbers};
use crate::handmade::{file, int, ints, node, node_in, open, scalar, value};
use reef_models::Model;
use reef_models::onnx::DeclaredSize;
use reef_op::tensor::Array;
use std::collections::BTreeMap;

const FLOAT: i64 = 1;

/// Two windows of 3 × 3 that see nothing of an image of 1 × 1.
fn windows() -> Vec<Vec<u8>> {
    let pool = |input, output| node("MaxPool", &[input], output, &[ints("kernel_shape", &[3, 3])]);
    vec![
        pool("x", "a"),
        pool("a", "y"),
        open(11, "x", FLOAT, &["n", "1", "h", "w"]),
        open(12, "y", FLOAT, &[]),
    ]
}

/// Samples of a sound have no batch.
#[test]
fn first_size_is_another_if_it_cannot_be_1() {
    let read = |sizes: &[&str]| {
        let parts = [
            numbers("pairs", &[-1, 2]),
            node("Reshape", &["x", "pairs"], "y", &[]),
            open(11, "x", FLOAT, sizes),
            open(12, "y", FLOAT, &["m", "2"]),
        ];
        let read = Model::from_onnx(&file(21, &parts), "made").tensors_only().read();
        read.unwrap().inputs().get(0).unwrap().1.spec.dims.clone()
    };
    assert_eq!(read(&["n"]), [64]);
    assert_eq!(read(&["n", "3"]), [64, 3]);
    assert_eq!(read(&["n", "4"]), [1, 4]);
}

/// Paddle's exporter writes it for each open size.
#[test]
fn question_mark_is_no_name_of_a_size() {
    let sizes = ["?", "3", "?"];
    let parts = [
        node("Relu", &["x"], "y", &[]),
        open(11, "x", FLOAT, &sizes),
        open(12, "y", FLOAT, &sizes),
    ];
    let declared = Model::from_onnx(&file(21, &parts), "made").declared().unwrap();
    let nameless = || DeclaredSize::Open(String::new());
    assert_eq!(
        declared.inputs[0].sizes,
        Some(vec![nameless(), DeclaredSize::Fixed(3), nameless()])
    );
}

#[test]
fn file_that_cannot_have_sizes_of_1_is_read() {
    let bytes = file(21, &windows());
    let read = Model::from_onnx(&bytes, "made").tensors_only().read().unwrap();
    let inputs = read.inputs();
    let dims = &inputs.get(0).unwrap().1.spec.dims;
    assert_eq!((dims[0], dims[2] > 4, dims[3] > 4), (1, true, true));
    let network = network(&windows(), &[("x", &[1, 1, 5, 5])]).unwrap();
    let made = network.execute(&[Array::F32((0..25).map(|k| k as f32).collect())]).unwrap();
    assert_eq!(doubles(&made[0]), [24.0]);
}

#[test]
fn sizes_that_were_chosen_are_not_guessed() {
    let said = network(&windows(), &[("x", &[1, 1, 2, 2])]).unwrap_err();
    assert!(said.starts_with("made: node \"a\" (MaxPool): "), "{said}");
}

/// The first step of a decoder: the past has no rows yet.
#[test]
fn inputs_without_elements_stay_inputs() {
    let graph = [
        node("Concat", &["past", "x"], "y", &[int("axis", 0)]),
        open(11, "past", FLOAT, &["p", "2"]),
        open(11, "x", FLOAT, &["1", "2"]),
        open(12, "y", FLOAT, &["q", "2"]),
    ];
    let network = network(&graph, &[("past", &[0, 2])]).unwrap();
    let names: Vec<_> = network.inputs.iter().map(|port| &*port.name).collect();
    assert_eq!(names, ["past", "x"]);
    let made = network.execute(&[Array::F32(vec![]), Array::F32(vec![3.0, 4.0])]).unwrap();
    assert_eq!(doubles(&made[0]), [3.0, 4.0]);
}

/// Converters of linear models import their own domain alone.
#[test]
fn file_without_operators_of_onnx_itself_is_read() {
    let scaler = node_in("ai.onnx.ml", "Scaler", &["x"], &["y"], &[]);
    let graph = [scaler, open(11, "x", FLOAT, &["2"]), open(12, "y", FLOAT, &["2"])];
    use crate::handmade::{bytes, number};
    let imported = bytes(8, [bytes(1, "ai.onnx.ml"), number(2, 3)].concat());
    let file = [imported, bytes(7, graph.concat())].concat();
    let model = Model::from_onnx(&file, "made").read().unwrap();
    let made = model.tensors().unwrap().execute(&[Array::F32(vec![1.0, 2.0])]).unwrap();
    assert_eq!(doubles(&made[0]), [1.0, 2.0]);
}

/// A classifier of images of one size each.
fn classifier(batch: &str) -> Vec<u8> {
    let graph = [
        node("GlobalAveragePool", &["pixels"], "means", &[]),
        node("Flatten", &["means"], "classes", &[]),
        open(11, "pixels", FLOAT, &[batch, "3", "4", "4"]),
        open(12, "classes", FLOAT, &[batch, "3"]),
    ];
    file(17, &graph)
}

/// Networks for images have shapes of their own within.
#[test]
fn ports_of_images_have_the_sizes_of_the_file() {
    let sizes = |name: &str, list: &[i64]| node("Constant", &[], name, &[ints("value_ints", list)]);
    let pooled = |output: &str| {
        vec![
            node("GlobalAveragePool", &["x"], output, &[]),
            value(11, "x", &[1, 3, 2, 2]),
            value(12, "y", &[]),
        ]
    };
    let rows = vec![
        node("Clip", &["x", "low", "high"], "y", &[]),
        scalar("low", 0.0),
        scalar("high", 1.0),
        value(11, "x", &[2, 3]),
        value(12, "y", &[]),
    ];
    let kept = pooled("y");
    let reshaped = [sizes("shape", &[3]), node("Reshape", &["pooled", "shape"], "y", &[])];
    let listed = [&pooled("pooled")[..], &reshaped].concat();
    let cases = [
        (rows, [&[2, 3][..], &[2, 3]]),
        (kept, [&[1, 3, 2, 2], &[1, 3, 1, 1]]),
        (listed, [&[1, 3, 2, 2], &[3]]),
    ];
    for (graph, ports) in cases {
        let bytes = file(17, &graph);
        let read = Model::from_onnx(&bytes, "made").images_only().read().unwrap();
        let dims = |ports: reef_models::Ports| ports.get(0).unwrap().1.spec.dims.clone();
        assert_eq!([&*dims(read.inputs()), &*dims(read.outputs())], ports);
    }
}

#[test]
fn ports_of_images_have_the_names_of_the_file() {
    let bytes = classifier("n");
    let model = Model::from_onnx(&bytes, "made").batch(2).images_only().read().unwrap();
    let (inputs, outputs) = (model.inputs(), model.outputs());
    let names = [&inputs, &outputs].map(|ports| ports.get(0).unwrap().1.name.as_str());
    assert_eq!(names, ["pixels", "classes"]);
}

#[test]
fn batch_of_a_file_that_fixes_it_is_refused() {
    let bytes = classifier("1");
    let said = Model::from_onnx(&bytes, "made").batch(4).read().unwrap_err().to_string();
    let want = "made: no input leaves its first size open for batch 4: pixels: float32[1, 3, 4, 4]";
    assert_eq!(said, want);
    Model::from_onnx(&bytes, "made").batch(1).read().unwrap();
}

/// A network for images has no open size any more once shapes have been chosen.
#[test]
fn size_and_batch_that_shapes_contradict_are_refused() {
    let bytes = classifier("n");
    let shaped = || Model::from_onnx(&bytes, "made").shape("pixels", &[2, 3, 4, 4]);
    let said = shaped().batch(4).read().unwrap_err().to_string();
    assert_eq!(said, "made: batch 4, possible are 2 to 2");
    let said = shaped().input_size(8).read().unwrap_err().to_string();
    assert_eq!(said, "made: input size 8, possible are 4 to 4");
    shaped().batch(2).input_size(4).read().unwrap();
}

#[test]
fn choices_of_files_are_refused_for_built_networks() {
    let texts = Model::open("distilbert").input_size(16).images_only();
    let said = texts.read().unwrap_err().to_string();
    assert!(said.starts_with("distilbert takes tensors (input_ids: "), "{said}");
    let values = BTreeMap::from([("x".to_owned(), (vec![1], Array::I64(vec![0])))]);
    let said = Model::open("resnet18").values(&values).read().unwrap_err().to_string();
    assert!(said.ends_with("so values of inputs decide about no shapes"), "{said}");
}

/// Rows of numbers are images of one element within.
#[test]
fn size_of_rows_of_numbers_is_refused() {
    let graph = [
        node("Clip", &["x", "low", "high"], "y", &[]),
        scalar("low", 0.0),
        scalar("high", 1.0),
        value(11, "x", &[2, 3]),
        value(12, "y", &[]),
    ];
    let bytes = file(17, &graph);
    Model::from_onnx(&bytes, "made").images_only().read().unwrap();
    let said = Model::from_onnx(&bytes, "made").input_size(32).read().unwrap_err().to_string();
    assert!(said.starts_with("made: input size 32, "), "{said}");
}

/// Masks of decoders are as long as the past and the new token.
#[test]
fn size_whose_name_is_a_sum_follows_from_others() {
    let graph = [
        node("Concat", &["past", "new"], "all", &[int("axis", 0)]),
        node("Mul", &["all", "mask"], "y", &[]),
        open(11, "past", FLOAT, &["p"]),
        open(11, "new", FLOAT, &["1"]),
        open(11, "mask", FLOAT, &["p + 1"]),
        open(12, "y", FLOAT, &[]),
    ];
    let sizes = |shapes: &[(&str, &[usize])]| {
        let read = network(&graph, shapes).unwrap();
        read.inputs.iter().map(|port| port.spec.dims[0]).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&[]), [1, 1, 2]);
    assert_eq!(sizes(&[("past", &[4])]), [4, 1, 5]);
    assert_eq!(sizes(&[("p", &[7])]), [7, 1, 8]);
    assert_eq!(sizes(&[("past", &[4]), ("mask", &[1])]), [4, 1, 1]);
}
