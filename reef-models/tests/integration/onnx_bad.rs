//! Every defect of an ONNX file is one error that names the file and the place, and nothing panics.

#![cfg(feature = "onnx")]

use crate::handmade::{bytes, file, float, int, ints, node, number, ones, scalar, text, value};
use proptest::prelude::*;
use reef_models::kinds::reference;
use reef_models::{Budget, Error, Model, Seeded, onnx};
use reef_op::tensor::Array;
use std::path::Path;

/// Error of reading `nodes`, or "fine", between an input `x` of 1x2x4x4 and an output `y`, with
/// these tensors: `w` of 3x2x3x3 and `b` of 3.
fn say(nodes: &[Vec<u8>]) -> String {
    let ends = [value(11, "x", &[1, 2, 4, 4]), value(12, "y", &[])];
    let tensors = [ones("w", &[3, 2, 3, 3]), ones("b", &[3])];
    let graph: Vec<_> = nodes.iter().chain(&ends).chain(&tensors).cloned().collect();
    match Model::from_onnx(&file(17, &graph), "bad.onnx").images_only().read() {
        Ok(_) => "fine".into(),
        Err(error) => error.to_string(),
    }
}

fn pooled(output: &str) -> Vec<u8> {
    node("GlobalAveragePool", &[output], "y", &[])
}

#[test]
fn a_network_made_by_hand_is_read() {
    assert_eq!(say(&[node("Conv", &["x", "w", "b"], "a", &[]), pooled("a")]), "fine");
}

#[test]
fn unsupported_operator_or_attribute_is_named_with_its_node() {
    let error = say(&[node("Softmax", &["x"], "a", &[]), pooled("a")]);
    let start = "bad.onnx: node \"a\" (Softmax): the operator (have: Add, AveragePool, ";
    assert!(error.starts_with(start), "{error}");
    let error = say(&[node("Relu", &["x"], "a", &[int("leak", 1)]), pooled("a")]);
    assert_eq!(error, "bad.onnx: node \"a\" (Relu): attribute leak is not supported");
    let pool = |attributes: &[Vec<u8>]| {
        let all = [&[ints("kernel_shape", &[3, 3]), ints("strides", &[2, 2])], attributes].concat();
        say(&[node("MaxPool", &["x"], "a", &all), pooled("a")])
    };
    assert_eq!(pool(&[]), "fine");
    let at = "bad.onnx: node \"a\" (MaxPool): ";
    assert_eq!(
        pool(&[int("ceil_mode", 1)]),
        format!("{at}padding [[0, 0], [1, 1]] that makes [2, 2] of [4, 4] is not supported")
    );
    assert_eq!(
        pool(&[ints("dilations", &[2, 1])]),
        format!("{at}a window of [3, 3] over 4 elements of axis 0")
    );
    assert_eq!(
        pool(&[ints("pads", &[0, 0])]),
        format!("{at}attribute pads must have 4 sizes, got [0, 0]")
    );
    assert_eq!(
        pool(&[ints("pads", &[3, 3, 3, 3])]),
        format!("{at}padding [[3, 3], [3, 3]] of a window of [3, 3]")
    );
    let mean = [ints("kernel_shape", &[3, 3]), ints("pads", &[1, 1, 1, 1])];
    assert_eq!(
        say(&[node("AveragePool", &["x"], "a", &mean), pooled("a")]),
        "bad.onnx: node \"a\" (AveragePool): means over windows that reach over the edge by different \
         amounts (count_include_pad, ceil_mode) are not supported"
    );
}

#[test]
fn negative_epsilon_is_refused_with_its_node() {
    let norm = |epsilon: f32| {
        let operands = ["a", "b", "b", "b", "b"];
        let norm = node("BatchNormalization", &operands, "n", &[float("epsilon", epsilon)]);
        say(&[node("Conv", &["x", "w"], "a", &[]), norm, pooled("n")])
    };
    assert_eq!([norm(0.0), norm(1e-3)], ["fine", "fine"]);
    for epsilon in [-1e-3, f32::NAN, f32::INFINITY] {
        let error = norm(epsilon);
        let at =
            "bad.onnx: node \"n\" (BatchNormalization): attribute epsilon must be at least 0, got ";
        assert!(error.starts_with(at), "{error}");
        assert!(error.len() > at.len(), "{error}");
    }
}

#[test]
fn bounds_of_a_clip_are_one_number_each_and_in_order() {
    let clip = |low: f32, high: f32| {
        let bounds = [scalar("low", low), scalar("high", high)].concat();
        say(&[node("Clip", &["x", "low", "high"], "a", &[]), pooled("a"), bounds])
    };
    assert_eq!([clip(-1.0, 1.0), clip(2.0, 2.0), clip(f32::MIN, f32::MAX)], ["fine"; 3]);
    let at = "bad.onnx: node \"a\" (Clip): ";
    assert_eq!(clip(1.0, -1.0), format!("{at}bounds 1 and -1"));
    assert_eq!(clip(f32::NAN, 1.0), format!("{at}bounds NaN and 1"));
}

/// A hard sigmoid with these attributes.
fn hard_sigmoid(attributes: &[Vec<u8>]) -> String {
    say(&[node("HardSigmoid", &["x"], "a", attributes), pooled("a")])
}

#[test]
fn hard_sigmoid_unlike_torchs_is_refused() {
    let alpha = float("alpha", 1.0 / 6.0);
    assert_eq!(hard_sigmoid(std::slice::from_ref(&alpha)), "fine");
    assert_eq!(hard_sigmoid(&[alpha.clone(), float("beta", 0.5)]), "fine");
    let refused = "bad.onnx: node \"a\" (HardSigmoid): its formula is none of those on images";
    assert_eq!(hard_sigmoid(&[]), refused);
    assert_eq!(hard_sigmoid(&[float("alpha", 0.25)]), refused);
    assert_eq!(hard_sigmoid(&[alpha, float("beta", 0.4)]), refused);
    assert_eq!(say(&[node("HardSwish", &["x"], "a", &[]), pooled("a")]), "fine");
    let error = say(&[node("HardSwish", &["x"], "a", &[float("alpha", 1.0)]), pooled("a")]);
    assert_eq!(error, "bad.onnx: node \"a\" (HardSwish): attribute alpha is not supported");
}

#[test]
fn product_of_unequal_tensors_is_named_with_both_shapes() {
    let gate = node("GlobalAveragePool", &["x"], "g", &[]);
    let product = |nodes: &[Vec<u8>], operands: &[&str]| {
        say(&[nodes, &[node("Mul", operands, "a", &[]), pooled("a")]].concat())
    };
    assert_eq!(product(std::slice::from_ref(&gate), &["x", "g"]), "fine");
    assert_eq!(product(std::slice::from_ref(&gate), &["g", "x"]), "fine");
    assert_eq!(product(&[], &["x", "x"]), "fine");
    let at = "bad.onnx: node \"a\" (Mul): sizes";
    assert_eq!(
        product(&[node("Conv", &["x", "w"], "c", &[])], &["x", "c"]),
        format!("{at} 2 and 3 don't fit: [1, 2, 4, 4] and [1, 3, 2, 2]")
    );
    let flat = node("Flatten", &["g"], "f", &[]);
    assert_eq!(
        product(&[gate.clone(), flat], &["x", "f"]),
        format!("{at} 4 and 2 don't fit: [1, 2, 4, 4] and [1, 2]")
    );
    let three = [node("Conv", &["x", "w"], "c", &[]), node("GlobalMaxPool", &["c"], "g", &[])];
    assert_eq!(
        product(&three, &["g", "x"]),
        format!("{at} 3 and 2 don't fit: [1, 3, 1, 1] and [1, 2, 4, 4]")
    );
    let error = say(&[gate.clone(), node("Add", &["x", "g"], "a", &[]), pooled("a")]);
    let words = "tensors must have the same shape, got [1, 2, 4, 4] and [1, 2, 1, 1]";
    assert_eq!(error, format!("bad.onnx: node \"a\" (Add): {words}"));
    let error = say(&[gate, node("Div", &["x", "g"], "a", &[]), pooled("a")]);
    let words = "only sums and products of two tensors are supported";
    assert_eq!(error, format!("bad.onnx: node \"a\" (Div): {words}"));
}

#[test]
fn missing_values_are_reported_with_their_names() {
    let error = say(&[node("Conv", &["x", "lost"], "a", &[]), pooled("a")]);
    let words = "is not an input or initializer, and no node before this one makes it";
    assert_eq!(error, format!("bad.onnx: node \"a\" (Conv): \"lost\" {words}"));
    let circle =
        [node("Add", &["x", "b2"], "a", &[]), node("Relu", &["a"], "b2", &[]), pooled("b2")];
    assert_eq!(say(&circle), format!("bad.onnx: node \"a\" (Add): \"b2\" {words}"));
    assert_eq!(say(&[]), "bad.onnx: output \"y\": no node makes it");
    let error = say(&[node("Conv", &["x"], "y", &[])]);
    assert_eq!(error, "bad.onnx: node \"y\" (Conv): operand 1 is missing");
    let twice = [node("Relu", &["x"], "a", &[]), node("Relu", &["x"], "a", &[]), pooled("a")];
    assert_eq!(say(&twice), "bad.onnx: node \"a\" (Relu): \"a\" is made a second time");
    assert_eq!(
        say(&[node("Identity", &["b"], "y", &[])]),
        "bad.onnx: output \"y\": depends on no input"
    );
    assert_eq!(
        say(&[node("Relu", &["x"], "y", &[])]),
        "bad.onnx: output \"y\": 4 rows and 4 columns; networks here end in one of each"
    );
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let error = say(&[node("Conv", &["x", "w"], "a", &[int("group", 2)]), pooled("a")]);
    assert_eq!(
        error,
        "bad.onnx: node \"a\" (Conv): float32[1, 2, 4, 4] with float32[3, 2, 3, 3] in 2 groups"
    );
    let error = say(&[
        node("Conv", &["x", "w"], "c", &[]),
        node("Add", &["x", "c"], "a", &[]),
        pooled("a"),
    ]);
    assert_eq!(
        error,
        "bad.onnx: node \"a\" (Add): sizes 2 and 3 don't fit: [1, 2, 4, 4] and [1, 3, 2, 2]"
    );
    let error = say(&[node("Flatten", &["x"], "f", &[]), node("Gemm", &["f", "w"], "y", &[])]);
    assert_eq!(
        error,
        "bad.onnx: node \"y\" (Gemm): must be matrices, got float32[1, 32] and float32[3, 2, 3, 3]"
    );
    let error = say(&[node("Mul", &["x", "b"], "a", &[]), pooled("a")]);
    assert_eq!(error, "bad.onnx: node \"a\" (Mul): sizes 4 and 3 don't fit: [1, 2, 4, 4] and [3]");
    let error = say(&[node("Mul", &["x", "c"], "a", &[]), pooled("a"), ones("c", &[4])]);
    assert_eq!(
        error,
        "bad.onnx: node \"a\" (Mul): a constant of [4] to a tensor of [1, 2, 4, 4] is not supported"
    );
}

#[test]
fn values_of_a_tensor_must_be_in_the_file() {
    let say = |dims: &[i64], more: &[u8]| {
        let sizes: Vec<u8> = dims.iter().flat_map(|&size| number(1, size)).collect();
        let tensor = bytes(5, [sizes, number(2, 1), bytes(8, "w"), more.to_vec()].concat());
        let nodes = [node("Conv", &["x", "w"], "a", &[]), pooled("a")].concat();
        let ends = [value(11, "x", &[1, 2, 4, 4]), value(12, "y", &[])].concat();
        let file = file(17, &[nodes, ends, tensor]);
        Model::from_onnx(&file, "bad.onnx").images_only().read().unwrap_err().to_string()
    };
    let at = "bad.onnx: initializer \"w\": ";
    assert_eq!(say(&[3, 2, 3, 3], &[]), format!("{at}0 values for a tensor of [3, 2, 3, 3]"));
    assert_eq!(
        say(&[i64::MAX, i64::MAX, 3, 3], &[]),
        format!("{at}a tensor of [{0}, {0}, 3, 3]", i64::MAX)
    );
    assert_eq!(say(&[-1, 2, 3, 3], &[]), format!("{at}a tensor of [-1, 2, 3, 3]"));
    assert_eq!(
        say(&[3, 2, 3, 3], &bytes(9, [0; 6])),
        format!("{at}6 bytes for a tensor float32[3, 2, 3, 3]")
    );
    let external = |path: &str| bytes(13, [bytes(1, "location"), bytes(2, path)].concat());
    let error = say(&[3, 2, 3, 3], &external("weights.data"));
    assert_eq!(error, format!("{at}its data is in another file"));
}

#[test]
fn bytes_that_are_not_onnx_are_refused() {
    let say = |bytes: &[u8]| {
        Model::from_onnx(bytes, "bad.onnx").images_only().read().unwrap_err().to_string()
    };
    assert_eq!(say(b""), "bad.onnx: no ONNX file: it has no graph");
    assert!(say(b"GIF89a").starts_with("bad.onnx: no ONNX file: "));
    let new = "bad.onnx: graph: operator set 99 (have: 13 to 21) is not supported: \
               run the file by another engine, under `reef exec`";
    assert_eq!(say(&file(99, &[Vec::new()])), new);
    let none = "bad.onnx: graph: operator set must be at least 1, got 0";
    assert_eq!(say(&file(0, &[Vec::new()])), none);
    let two = [value(11, "x", &[1, 2]), value(11, "z", &[1, 2])];
    assert_eq!(say(&file(17, &two)), "bad.onnx: graph: inputs must be one, got [\"x\", \"z\"]");
    let huge = [value(11, "x", &[1, 1 << 19, 1 << 19, 1 << 19])];
    assert!(say(&file(17, &huge)).contains("is out of range"));
}

/// A graph within an attribute within a graph, and so on.
#[test]
fn deep_nesting_does_no_harm() {
    let mut graph = Vec::new();
    for _ in 0..2_000 {
        graph = bytes(1, bytes(5, bytes(6, &graph)));
    }
    let file = file(17, &[graph, value(11, "x", &[1, 2]), value(12, "y", &[])]);
    let error = Model::from_onnx(&file, "bad.onnx").images_only().read().unwrap_err().to_string();
    assert_eq!(error, "bad.onnx: no ONNX file: graphs lie more than 16 deep in each other");
}

/// Concatenations of concatenations, and of one value with itself.
#[test]
fn long_chains_do_no_harm() {
    let name = |i: usize| format!("c{i}");
    let chain = (0..3_000).map(|i| {
        let before = if i == 0 { "x".into() } else { name(i - 1) };
        node("Concat", &[&before, "x"], &name(i), &[int("axis", 1)])
    });
    let nodes: Vec<_> = chain.chain([pooled("c2999")]).collect();
    assert_eq!(say(&nodes), "fine");
    let doubled = (0..40).map(|i| {
        let before = if i == 0 { "x".into() } else { name(i - 1) };
        node("Concat", &[&before, &before], &name(i), &[int("axis", 1)])
    });
    let nodes: Vec<_> = doubled.chain([pooled("c39")]).collect();
    assert!(say(&nodes).contains("is out of range"));
}

// --- Files that were damaged
// -------------------------------------------------------------------------

/// Reads `bytes`; what is read can be run, and the nodes give values or an error.
fn survive(bytes: &[u8]) {
    let nodes = |input: &[f32]| onnx::execute_bytes(bytes, "damaged", input);
    if let Err(Error::Length { want, .. }) = nodes(&[])
        && want < 1 << 14
    {
        let _ = nodes(&Seeded(1).input(want));
    }
    let Ok(model) = Model::from_onnx(bytes, "damaged").images_only().read() else { return };
    let (image, params) = model.image().unwrap();
    if image.graph().bytes() < 1 << 22 {
        reference::execute(image, params, &Seeded(1).input(model.input_len())).unwrap();
    }
}

fn cases() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx");
    let names = ["odd-13", "skip-17", "inception-13", "mobilenet3-18"];
    names.map(|name| std::fs::read(folder.join(format!("{name}.onnx"))).unwrap()).into()
}

#[test]
fn every_cut_is_survived() {
    for case in cases() {
        (0..case.len()).step_by(97).for_each(|length| survive(&case[..length]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn garbage_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        survive(&bytes);
    }

    /// Most of a file is weights; structure is at its start.
    #[test]
    fn changed_bytes_are_survived(
        case in 0..4usize,
        changes in prop::collection::vec((0.0..1.0f64, any::<u8>()), 1..6),
    ) {
        let mut bytes = cases().swap_remove(case);
        for (place, byte) in changes {
            let at = (place * place * bytes.len() as f64) as usize;
            bytes[at] = byte;
        }
        survive(&bytes);
    }
}

/// Error of reading `nodes` as a network of tensors, or "fine", between an input `x` of 2x3 and an
/// output `y`.
fn say_tensors(nodes: &[Vec<u8>], budget: u64) -> String {
    let ends = [value(11, "x", &[2, 3]), value(12, "y", &[])];
    let graph: Vec<_> = nodes.iter().chain(&ends).cloned().collect();
    let bytes = file(17, &graph);
    match Model::from_onnx(&bytes, "bad.onnx").tensors_only().memory_limit(budget).read() {
        Ok(_) => "fine".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn faults_in_a_network_of_tensors_have_their_node() {
    let say = |nodes: &[Vec<u8>]| say_tensors(nodes, Budget::USUAL);
    assert_eq!(say(&[node("Softmax", &["x"], "y", &[int("axis", 1)])]), "fine");
    assert_eq!(
        say(&[node("Softmax", &["x"], "y", &[float("axis", 1.0)])]),
        "bad.onnx: node \"y\" (Softmax): attribute axis must be an integer"
    );
    assert_eq!(
        say(&[node("Softmax", &["x"], "y", &[int("axis", 2)])]),
        "bad.onnx: node \"y\" (Softmax): axis 2 of 2 dimensions"
    );
    assert_eq!(
        say(&[node("BitCast", &["x"], "y", &[])]),
        "bad.onnx: node \"y\" (BitCast): the operator \"BitCast\" is not supported: \
         run the file by another engine, under `reef exec`"
    );
    let circle = [node("Add", &["a", "x"], "y", &[]), node("Relu", &["y"], "a", &[])];
    assert_eq!(
        say(&circle),
        "bad.onnx: node \"y\" (Add): \"a\" is not an input or initializer, and no node before this one makes it"
    );
    let short = bytes(5, [number(1, 3), number(2, 1), bytes(8, "w"), bytes(9, [0; 4])].concat());
    assert_eq!(say(&[short]), "bad.onnx: initializer \"w\": 4 bytes for a tensor float32[3]");
}

#[test]
fn oversized_tensors_are_refused_before_allocation() {
    let filled = |sizes: &[i64]| {
        let shape = node("Constant", &[], "s", &[ints("value_ints", sizes)]);
        [shape, node("ConstantOfShape", &["s"], "y", &[])]
    };
    assert_eq!(
        say_tensors(&filled(&[1 << 40, 1 << 40]), Budget::USUAL),
        "bad.onnx: node \"y\" (ConstantOfShape): a tensor of [1099511627776, 1099511627776] is out of range"
    );
    let said = say_tensors(&filled(&[1 << 20, 1 << 12]), 1 << 20);
    assert!(said.starts_with("bad.onnx: node \"y\" (ConstantOfShape): "), "{said}");
    assert!(said.contains("bytes of memory wanted"), "{said}");
}

#[test]
fn error_of_an_unbound_input_has_its_name() {
    let ends = [value(11, "x", &[2, 3]), value(11, "n", &[1]), value(12, "y", &[])];
    let nodes =
        [node("Cast", &["n"], "s", &[int("to", 7)]), node("Reshape", &["x", "s"], "y", &[])];
    let graph: Vec<_> = nodes.iter().chain(&ends).cloned().collect();
    let bytes = file(17, &graph);
    let error = Model::from_onnx(&bytes, "n.onnx").read().unwrap_err();
    assert!(matches!(&error, Error::Unbound { inputs, .. } if inputs == &["n"]), "{error}");
    let values = [("n".to_owned(), (vec![1], Array::F32(vec![6.0])))].into();
    let model = Model::from_onnx(&bytes, "n.onnx").values(&values).read().unwrap();
    let outputs = model.outputs();
    assert_eq!((model.inputs().len(), &outputs.get(0).unwrap().1.spec.dims[..]), (1, &[6][..]));
}

/// A program that answers in place of REEF may take the first kind, and not a broken file.
#[test]
fn unsupported_file_is_another_kind_than_a_broken_one() {
    let ends = [value(11, "x", &[2, 3]), value(12, "y", &[])];
    let read = |opset: i64, nodes: &[Vec<u8>]| {
        let graph: Vec<_> = nodes.iter().chain(&ends).cloned().collect();
        Model::from_onnx(&file(opset, &graph), "bad.onnx").read().unwrap_err()
    };
    let list = node("SequenceConstruct", &["x"], "list", &[]);
    let named = node("Constant", &[], "a", &[text("value_string", "a")]);
    let unsupported = [
        read(17, &[node("ImageDecoder", &["x"], "y", &[])]),
        read(17, &[node("Softmax", &["x"], "y", &[int("leak", 1)])]),
        read(99, &[node("Relu", &["x"], "y", &[])]),
        read(17, &[bytes(15, [8]), node("Relu", &["x"], "y", &[])]),
        read(17, &[named.clone(), node("Cast", &["a"], "y", &[int("to", 1)])]),
        read(17, &[node("RandomNormalLike", &["x"], "y", &[])]),
        read(17, &[list, node("Add", &["x", "list"], "y", &[])]),
        read(17, &[named, node("Add", &["x", "a"], "y", &[])]),
    ];
    for error in unsupported {
        assert!(matches!(error, Error::Unsupported { .. }) && error.is_unsupported(), "{error}");
    }
    let graph = [&[node("Softmax", &["x"], "y", &[])], &ends[..]].concat();
    let of_images = Model::from_onnx(&file(17, &graph), "bad.onnx").images_only().read();
    assert!(of_images.is_err_and(|error| error.is_unsupported()));
    let broken = [
        read(17, &[node("Softmax", &["x"], "y", &[int("axis", 2)])]),
        read(17, &[node("Relu", &["z"], "y", &[])]),
        Model::from_onnx(b"GIF89a", "bad.onnx").read().unwrap_err(),
    ];
    for error in broken {
        assert!(matches!(error, Error::Onnx { .. }) && !error.is_unsupported(), "{error}");
    }
}

/// Placing activations was quadratic: this took 16 seconds.
#[test]
fn a_hundred_thousand_nodes_are_read() {
    let name = |k: usize| if k == 100_000 { "y".to_owned() } else { format!("v{k}") };
    let nodes = (1..=100_000).map(|k| {
        let from = if k == 1 { "x".to_owned() } else { name(k - 1) };
        node("Transpose", &[&from], &name(k), &[])
    });
    let ends = [value(11, "x", &[2, 3]), value(12, "y", &[])];
    let graph: Vec<_> = nodes.chain(ends).collect();
    let bytes = file(17, &graph);
    let model = Model::from_onnx(&bytes, "long").read().unwrap();
    let tensors = model.tensors().unwrap();
    assert_eq!((tensors.steps().len(), tensors.arena().bytes), (100_000, 128));
}

/// Labels of later terms were collected anew for each term.
#[test]
fn sum_of_products_of_many_terms_is_read() {
    for result in ["->", ""] {
        let equation = format!("{}{result}", ["i"; 20_000].join(","));
        let product = node("Einsum", &["x"; 20_000], "y", &[text("equation", &equation)]);
        let bytes = file(17, &[product, value(11, "x", &[2]), value(12, "y", &[])]);
        let model = Model::from_onnx(&bytes, "many").tensors_only().read().unwrap();
        let made = model.tensors().unwrap().execute(&[Array::F32(vec![1.0, -1.0])]).unwrap();
        assert_eq!(made[0].values().to_f64(), [2.0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_damaged_network_of_tensors_never_panics(at in 0usize..600, byte in any::<u8>(), cut in 0usize..600) {
        let nodes = [
            node("Constant", &[], "s", &[ints("value_ints", &[3, -1])]),
            node("Reshape", &["x", "s"], "a", &[]),
            node("Conv", &["p", "w"], "c", &[ints("pads", &[1, 1, 1, 1]), ints("strides", &[2, 2])]),
            node("Transpose", &["a"], "t", &[ints("perm", &[1, 0])]),
            node("MatMul", &["t", "a"], "m", &[]),
            node("ReduceMean", &["m"], "y", &[ints("axes", &[0])]),
        ];
        let ends = [value(11, "x", &[2, 3]), value(11, "p", &[1, 2, 5, 5]), value(12, "y", &[])];
        let graph: Vec<_> = nodes.iter().chain(&ends).cloned().chain([ones("w", &[3, 2, 3, 3])]).collect();
        let mut bytes = file(13, &graph);
        let len = bytes.len();
        bytes[at % len] = byte;
        let kept = if cut < 300 { len } else { cut % len };
        let _ = Model::from_onnx(&bytes[..kept], "damaged").tensors_only().memory_limit(1 << 20).read();
    }
}
