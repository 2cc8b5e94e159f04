//! ONNX files by `open`: which kind of network they become.

#![cfg(feature = "onnx")]

use crate::eight_bits::device::plain;
use crate::handmade::{file, node, ones, open, value};
use reef_models::kinds::reference;
use reef_models::onnx::DeclaredSize;
use reef_models::{Error, Model};
use reef_op::tensor::Array;

/// Means of three planes of 4 × 4, and what the file says of its output.
fn means(declared: &[i64]) -> Model {
    let name = format!("reef-open-{}-{declared:?}.onnx", std::process::id());
    let path = std::env::temp_dir().join(name.replace([' ', ',', '[', ']'], "_"));
    let pool = node("GlobalAveragePool", &["x"], "y", &[]);
    let ends = [value(11, "x", &[1, 3, 4, 4]), value(12, "y", declared)];
    std::fs::write(&path, file(17, &[&[pool][..], &ends].concat())).unwrap();
    let model = Model::open(&path).read();
    std::fs::remove_file(&path).unwrap();
    model.unwrap()
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

#[test]
fn shapes_of_a_network_with_weights_are_refused() {
    let opened = Model::open("resnet18").weights("none.safetensors").shape("x", &[1]);
    let said = opened.read().unwrap_err().to_string();
    assert!(said.ends_with("no ONNX file, so its sizes are its own"), "{said}");
}
