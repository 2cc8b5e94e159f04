//! Networks from ONNX files give what ONNX Runtime and PyTorch give.

#![cfg(feature = "onnx")]

use crate::handmade::{bytes, file, node, scalar, value};
use reef_models::kinds::{ImageModel, Tensors, reference};
use reef_models::{Budget, Model, Seeded, onnx};
use reef_op::Op;
use std::path::{Path, PathBuf};

/// As `tools/onnx_cases.py` and `tools/make_onnx.py` write it.
#[derive(serde::Deserialize)]
struct Golden {
    seed: u64,
    logits: Vec<f32>,
}

/// Largest difference, as a part of the largest logit.
const TOLERANCE: f32 = 1e-5;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx")
}

fn import(name: &str) -> Model {
    Model::open(folder().join(format!("{name}.onnx"))).images_only().read().unwrap()
}

/// The part of the largest logit by which the worst one is off: of the file's own nodes, and of the
/// schedule that was made of them.
fn off(file: &Path) -> [f32; 2] {
    let golden = std::fs::read_to_string(file.with_extension("json")).unwrap();
    let golden: Golden = serde_json::from_str(&golden).unwrap();
    let model = Model::open(file).images_only().read().unwrap();
    let (image, params) = model.image().unwrap();
    let input = Seeded(golden.seed).input(model.input_len());
    let largest = golden.logits.iter().fold(0f32, |max, logit| max.max(logit.abs()));
    let nodes = model.expected(&input).unwrap();
    let steps = reference::execute(image, params, &input).unwrap();
    [nodes, steps].map(|logits| {
        assert_eq!(logits.len(), golden.logits.len(), "{}", file.display());
        let pairs = logits.iter().zip(&golden.logits);
        pairs.map(|(have, want)| (have - want).abs()).max_by(f32::total_cmp).unwrap() / largest
    })
}

/// All `.onnx` files of a folder whose logits are known.
fn agree(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|f| f.extension().is_some_and(|e| e == "onnx")).collect();
    files.sort();
    for file in &files {
        let off = off(file);
        eprintln!("{}: off by {off:?}", file.display());
        assert!(off.iter().all(|&off| off <= TOLERANCE), "{}: off by {off:?}", file.display());
    }
    files.len()
}

#[test]
fn imported_networks_give_onnx_runtimes_logits() {
    assert_eq!(agree(&folder()), 17);
}

#[test]
fn imported_networks_give_torchs_logits() {
    if agree(&folder().join("torch")) == 0 {
        reef_conformance::skip("tests/onnx/torch is empty, tools/make_onnx.py fills it");
    }
}

/// The part of the largest value by which what is executed node by node differs from what `text`
/// says.
fn differs(name: &str, text: &str, params: &Tensors) -> f32 {
    let file = folder().join(format!("{name}.onnx"));
    let model = ImageModel::from_json(text, name).unwrap();
    let input = Seeded(3).input(model.input().elements());
    let want = onnx::execute(file, &input).unwrap();
    let have = reference::execute(&model, params, &input).unwrap();
    let largest = want.iter().fold(0f32, |max, value| max.max(value.abs()));
    have.iter().zip(&want).map(|(a, b)| (a - b).abs()).max_by(f32::total_cmp).unwrap() / largest
}

/// A mistake of the importer would be seen, because the reference is the file itself.
#[test]
fn a_wrong_rewrite_is_seen() {
    let mistakes = [
        ("resnet-13", "\"relu\":true", "\"relu\":false"),
        ("resnet-13", "\"kind\":\"max\"", "\"kind\":\"average\""),
        ("mobilenet-13", "\"high\":6.0", "\"high\":0.5"),
        ("mobilenet-13", "\"low\":0.0", "\"low\":null"),
        ("mobilenet3-18", "\"hard_swish\"", "\"hard_sigmoid\""),
        ("densenet-13", "\"relu\":true", "\"relu\":false"),
    ];
    for (name, from, to) in mistakes {
        let model = import(name);
        let (image, params) = model.image().unwrap();
        let text = image.to_json().unwrap();
        assert!(text.contains(from), "{name}: {from}");
        assert!(differs(name, &text, params) <= TOLERANCE, "{name}");
        let off = differs(name, &text.replacen(from, to, 1), params);
        assert!(off > 2.0 * TOLERANCE, "{name}: {to} goes unseen: {off}");
    }
}

#[test]
fn a_bias_that_is_lost_is_seen() {
    let model = import("resnet-13");
    let (image, params) = model.image().unwrap();
    let text = image.to_json().unwrap();
    let mut params = image.params(params).unwrap();
    let bias = params.tensors.iter_mut().find(|(name, _)| name.ends_with(".bias")).unwrap().1;
    bias.fill(0.0);
    assert!(differs("resnet-13", &text, &Tensors::Read(params)) > 1e-3);
}

/// Clip by itself, without what images end in: the output is the tensor.
fn clipped(low: f32, high: f32, input: &[f32]) -> [Vec<f32>; 2] {
    let graph = [
        node("Clip", &["x", "low", "high"], "y", &[]),
        scalar("low", low),
        scalar("high", high),
        value(11, "x", &[1, input.len() as i64]),
        value(12, "y", &[]),
    ];
    let bytes = file(17, &graph);
    let model = Model::from_onnx(&bytes, "clip").images_only().read().unwrap();
    [onnx::execute_bytes(&bytes, "clip", input).unwrap(), model.expected(input).unwrap()]
}

#[test]
fn a_clip_is_exact_whatever_its_bounds() {
    let input = [-0.559, 1e-9, 7.5, -3e8, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    for (low, high) in [(-1e9, 1e9), (0.0, 6.0), (-0.5, 1e30), (f32::MIN, 3.0), (0.0, f32::MAX)] {
        let exact = |x: &f32| match (low, high) {
            (f32::MIN, _) if *x < f32::MIN => *x, // what files write for no bound
            (_, f32::MAX) if *x > f32::MAX => *x,
            _ => x.clamp(low, high),
        };
        let want: Vec<f32> = input.iter().map(exact).collect();
        let [_, steps] = clipped(low, high, &input);
        assert_eq!(bits(&steps), bits(&want), "{low} to {high}");
    }
    let [nodes, steps] = clipped(-1e9, 1e9, &[-0.559]);
    assert_eq!([nodes[0], steps[0]], [-0.559; 2]);
}

/// Number of steps of each kind: convolution, linear layer, pool, scale and shift, activation,
/// product.
fn kinds(name: &str) -> [usize; 6] {
    let mut kinds = [0; 6];
    for layer in import(name).image().unwrap().0.layers() {
        let kind = match layer.op {
            Op::Conv2d(_) => 0,
            Op::Linear(_) => 1,
            Op::Pool2d(_) => 2,
            Op::ScaleShift(_) => 3,
            Op::Activate(_) => 4,
            Op::Multiply(_) => 5,
        };
        kinds[kind] += 1;
    }
    kinds
}

#[test]
fn normalisations_sums_and_concatenations_cost_no_step() {
    assert_eq!(kinds("resnet-13"), [7, 1, 2, 0, 0, 0]);
    // Ten convolutions, three pools; one map before each layer and after each block.
    assert_eq!(kinds("densenet-13"), [1 + 2 * 5 + 1, 1, 3, 5 + 2, 0, 0]);
    assert_eq!(kinds("vgg-13"), [3 + 1, 2, 2, 0, 0, 0], "the first linear layer sees an image");
    assert_eq!(kinds("mobilenet-13"), [3 + 3 * 3 + 1, 1, 1, 0, 0, 0], "nor does ReLU6");
}

#[test]
fn activations_and_products_come_back_from_their_text() {
    let model = import("mobilenet3-18");
    let (image, _) = model.image().unwrap();
    let text = image.to_json().unwrap();
    assert_eq!(ImageModel::from_json(&text, model.name()).unwrap(), *image);
    let read = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        ImageModel::from_json(&text.replacen(from, to, 1), "bad.json").unwrap_err().to_string()
    };
    let error = read("\"function\":\"hard_swish\"", "\"function\":\"swosh\"");
    assert!(error.contains("unknown variant `swosh`"), "{error}");
    let error = read("\"factor\":{\"batch\":2,", "\"factor\":{\"batch\":1,");
    assert!(error.contains("is in it"), "{error}");
}

#[test]
fn sizes_that_a_file_leaves_open_are_chosen() {
    let path = folder().join("vgg-13.onnx");
    let model = Model::open(&path).images_only().batch(3).read().unwrap();
    let (image, _) = model.image().unwrap();
    assert_eq!((image.input().batch, image.output().elements()), (3, 30));
    let error = Model::open(&path).images_only().input_size(64).read().unwrap_err().to_string();
    assert!(error.ends_with("vgg-13.onnx: input \"input\": 28x28 is fixed, 64 asked"), "{error}");
}

/// Paddle's exporter writes them so.
#[test]
fn a_size_of_minus_one_is_left_open() {
    let nodes = [node("Relu", &["x"], "y", &[])];
    let ends = [value(11, "x", &[-1, 3, -1]), value(12, "y", &[])];
    let graph: Vec<_> = nodes.iter().chain(&ends).cloned().collect();
    let read = |shapes: &[(&str, &[usize])]| {
        let shapes = shapes.iter().map(|&(name, dims)| (name.to_owned(), dims.to_vec()));
        Model::from_onnx(&file(12, &graph), "open").shapes(shapes).read()
    };
    let dims = |shapes: &[(&str, &[usize])]| {
        read(shapes).unwrap().outputs().get(0).unwrap().1.spec.dims.clone()
    };
    assert_eq!(dims(&[]), [1, 3, 1]);
    assert_eq!(dims(&[("x", &[2, 3, 5])]), [2, 3, 5]);
    let said = read(&[("x", &[2, 4, 5])]).unwrap_err().to_string();
    assert!(said.ends_with("size 1 is fixed to 3, 4 asked"), "{said}");
    let graph = [value(11, "x", &[-2]), value(12, "x", &[])];
    let said = Model::from_onnx(&file(12, &graph), "less").read().unwrap_err().to_string();
    assert!(said.ends_with("a size of -2"), "{said}");
}

#[test]
fn metadata_is_read_by_its_keys() {
    let entry = |key: &str, value: &[u8]| bytes(14, [bytes(1, key), bytes(2, value)].concat());
    let place = std::env::temp_dir().join(format!("reef-metadata-{}.onnx", std::process::id()));
    let written = |more: Vec<u8>| {
        std::fs::write(
            &place,
            [file(12, &[]), entry("character", "a\nß".as_bytes()), more].concat(),
        )
        .unwrap();
        let read = onnx::metadata(&place, &Budget::default());
        std::fs::remove_file(&place).unwrap();
        read
    };
    let read = written(entry("long", &[b'x'; 10_000])).unwrap();
    assert_eq!((read["character"].as_str(), read["long"].len()), ("a\nß", 10_000));
    let said = written(entry("author", &[0xff])).unwrap_err().to_string();
    assert!(said.ends_with("no ONNX file: metadata \"author\" isn't UTF-8"), "{said}");
}
