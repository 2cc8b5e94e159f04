//! ONNX files by `open`: which kind of network they become.

#![cfg(feature = "onnx")]

use crate::eight_bits::device::plain;
use crate::handmade::{file, graph, int, node, ones, open, singles, value};
use reef_models::kinds::reference;
use reef_models::onnx::DeclaredSize;
use reef_models::{Error, Model};
use reef_op::tensor::{Array, Element};
use std::collections::BTreeMap;

/// Means of three planes of 4 × 4, and what the file says of its output.
fn means(declared: &[i64]) -> Model {
    let name = format!("reef-open-{}-{declared:?}.onnx", std::process::id());
    let path = std::env::temp_dir().join(name.replace([' ', ',', '[', ']'], "_"));
    let parts = [
        node("Conv", &["x", "w"], "same", &[int("group", 3)]),
        ones("w", &[3, 1, 1, 1]),
        node("GlobalAveragePool", &["same"], "y", &[]),
        value(11, "x", &[1, 3, 4, 4]),
        value(12, "y", declared),
    ];
    std::fs::write(&path, file(17, &parts)).unwrap();
    let model = Model::open(&path).read();
    std::fs::remove_file(&path).unwrap();
    model.unwrap()
}

/// As a file of PyTorch is that leaves all sizes open: channels and features are those of weights.
#[test]
fn open_sizes_are_those_that_constants_want() {
    let found = |op: &str, weights: Vec<u8>, sizes: &[&str], more: &[Vec<u8>]| {
        let parts = [
            node(op, &["x", "w"], "y", more),
            weights,
            open(11, "x", 1, sizes),
            open(12, "y", 1, &[]),
        ];
        let bytes = file(21, &parts);
        let read = Model::from_onnx(&bytes, "made").tensors_only().read();
        read.map(|model| model.tensors().unwrap().inputs[0].spec.dims.clone())
    };
    let image = ["n", "c", "rows", "columns"];
    let kernel = || ones("w", &[4, 3, 3, 3]);
    assert_eq!(found("Conv", kernel(), &image, &[]).unwrap(), [1, 3, 64, 64]);
    assert_eq!(found("Conv", kernel(), &image, &[int("group", 2)]).unwrap(), [1, 6, 64, 64]);
    assert_eq!(found("MatMul", ones("w", &[8, 3]), &["n", "f"], &[]).unwrap(), [1, 8]);
    let said = found("MatMul", ones("w", &[8, 3]), &["n", "4"], &[]).unwrap_err().to_string();
    assert!(said.contains("node \"y\" (MatMul): "), "{said}");
}

#[test]
fn declared_output_of_several_rows_makes_a_network_of_tensors() {
    let input: Vec<f32> = (0..48).map(|k| k as f32).collect();
    let want = [7.5, 23.5, 39.5];
    for declared in [&[1, 3, 1, 1][..], &[]] {
        let model = means(declared);
        let (image, tensors) = model.image().unwrap();
        assert_eq!(reference::execute(image, tensors, &input).unwrap(), want);
    }
    // Wrong, but what is computed is the same.
    let model = means(&[1, 3, 4, 4]);
    let made =
        model.tensors().expect("a network of tensors").execute(&[Array::F32(input)]).unwrap();
    assert_eq!(made, [Array::F32(want.to_vec())]);
}

#[test]
fn weights_next_to_bytes_of_a_file_are_refused() {
    let pool = node("GlobalAveragePool", &["x"], "y", &[]);
    let ends = [value(11, "x", &[1, 3, 4, 4]), value(12, "y", &[1, 3, 1, 1])];
    let bytes = file(17, &[&[pool][..], &ends].concat());
    let open = || Model::from_onnx(&bytes, "made");
    open().read().expect("it has its weights");
    let said = open().weights("a.safetensors").read().unwrap_err().to_string();
    assert_eq!(said, "made: an ONNX file has its weights, got a.safetensors");
}

/// Sums of two matrices whose rows have one name.
fn sums() -> Vec<u8> {
    let sizes = &["rows", "3"];
    let ends = [open(11, "a", 1, sizes), open(11, "b", 1, sizes), open(12, "y", 1, sizes)];
    let nodes = [node("Add", &["a", "b"], "ab", &[]), node("Add", &["ab", "w"], "y", &[])];
    file(17, &[&nodes[..], &ends, &[ones("w", &[3])]].concat())
}

#[test]
fn size_with_a_name_is_that_of_all_inputs() {
    let bytes = sums();
    let opened = || Model::from_onnx(&bytes, "sums");
    for chosen in [opened().shape("a", &[4, 3]), opened().shape("rows", &[4]), opened().batch(4)] {
        let declared = chosen.declared().unwrap();
        let ports = declared.inputs.iter().chain(&declared.outputs);
        let fixed = [4, 3].map(DeclaredSize::Fixed);
        assert!(!declared.is_open() && ports.clone().count() == 3);
        assert!(ports.clone().all(|port| port.sizes.as_deref() == Some(&fixed)), "{declared:?}");
        let model = chosen.read().unwrap();
        assert!(model.inputs().iter().all(|(_, port)| port.spec.dims == [4, 3]));
    }
    assert!(opened().declared().unwrap().is_open());
    assert!(!Model::open("resnet18").declared().unwrap().is_open());
}

#[test]
fn networks_for_sizes_of_requests_are_kept() {
    let name = format!("reef-open-{}-sums.onnx", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, sums()).unwrap();
    let variants = Model::open(&path).variants(&plain(), 2).unwrap();
    let get = |rows| variants.get([("rows".to_owned(), vec![rows])]);
    for rows in [4, 7, 4, 9] {
        let own = get(rows).unwrap().own_bytes(Some(variants.usual()));
        assert_eq!(own, 0, "constants are shared");
    }
    let wrong = variants.get([("a".to_owned(), vec![4, 5])]).unwrap_err().to_string();
    assert!(wrong.ends_with("input \"a\": size 1 is fixed to 3, 5 asked"), "{wrong}");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(variants.len(), 2);
    get(4).unwrap();
    get(9).unwrap();
    assert!(matches!(get(7).unwrap_err(), Error::Io { .. }), "it is read again");
}

/// A decoder whose graphs are merged; that with a cache has weights of its own.
#[test]
fn networks_for_truth_values_of_requests_are_kept() {
    let with = [
        node("Concat", &["past", "x"], "all", &[int("axis", 0)]),
        node("Add", &["all", "w"], "with", &[]),
        value(12, "with", &[]),
    ];
    let alone = [node("Neg", &["x"], "without", &[]), value(12, "without", &[])];
    let branches = [graph("then_branch", &with), graph("else_branch", &alone)];
    let parts = [
        singles("w", &[2], |k| k as f32),
        node("If", &["use_cache"], "y", &branches),
        open(11, "x", 1, &["1", "2"]),
        open(11, "use_cache", 9, &["1"]),
        open(11, "past", 1, &["rows", "2"]),
        open(12, "y", 1, &["all", "2"]),
    ];
    let bytes = file(17, &parts);
    let of = |holds: u8| {
        let value = Array::from_le_bytes(Element::Bool, &[holds]);
        BTreeMap::from([("use_cache".to_owned(), (vec![1], value))])
    };
    let opened = || Model::from_onnx(&bytes, "merged").tensors_only();
    let refused = opened().variants(&plain(), 4).map(drop);
    assert!(matches!(refused, Err(Error::Unbound { .. })));
    let variants = opened().values(&of(0)).variants(&plain(), 4).unwrap();
    let get = |rows, holds| {
        let shapes = [("rows".to_owned(), vec![rows])];
        let weights = variants.get_for_values(shapes, &of(holds)).unwrap();
        weights.own_bytes(Some(variants.usual()))
    };
    assert_eq!((get(3, 0), get(3, 0), variants.len()), (0, 0, 1));
    assert!(get(3, 1) > 0 && get(4, 1) > 0, "other weights");
    assert_eq!((get(3, 1) > 0, variants.len()), (true, 3));
}

#[test]
fn shapes_of_a_network_with_weights_are_refused() {
    let opened = Model::open("resnet18").weights("none.safetensors").shape("x", &[1]);
    let said = opened.read().unwrap_err().to_string();
    assert!(said.ends_with("no ONNX file, so its sizes are its own"), "{said}");
}
