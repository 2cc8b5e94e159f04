//! `reef model calibrate`: a file of scales, and the error that they make.

use crate::common::{Folder, json, prints, reef, refuses, says, text};

/// A small network, and the options that all tests give.
fn calibrate<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all = ["model", "calibrate", "resnet18", "--size", "32", "--count", "2", "--out", out];
    [&all[..], more].concat()
}

#[test]
fn calibration_writes_scales_and_says_the_error() {
    let folder = Folder::new("calibrate");
    let out = folder.path("scales.json");
    let said = says(&calibrate(&out, &["--format", "int8", "--checks", "2"]));
    let begin =
        format!("{out}: int8, 22 storages of 2 samples\n21 of 23 steps in numbers of 8 bits\n");
    assert!(said.starts_with(&begin), "{said}");
    assert!(said.contains("error against floats, 2 images, plain loops:\n"), "{said}");
    let file = json(&std::fs::read_to_string(&out).expect("it was written"));
    assert_eq!([&file["kind"], &file["network"]], ["reef-scales", "resnet18"]);
    assert!(file["largest"]["layer1.0.conv1"].as_f64() > Some(0.1), "{file}");
    let more = ["--format", "fp8", "--checks", "1", "--percentile", "99", "--json"];
    let said = json(&prints(&calibrate(&out, &more)));
    assert_eq!(said["format"], "fp8");
    let error = &said["error"];
    assert!(error["largest"].as_f64().is_some_and(|off| off > 1e-4 && off < 0.3), "{said}");
    assert!(error["cosine"].as_f64() > Some(0.9), "{said}");
    let file = json(&std::fs::read_to_string(&out).expect("it was written again"));
    assert_eq!([&file["percentile"], &file["samples"]], [99.0, 2.0]);
    let said = says(&calibrate(&out, &["--format", "int8", "--checks", "0"]));
    assert_eq!(said, begin, "no error was asked for");
}

#[test]
fn samples_are_images_and_arrays() {
    let folder = Folder::new("calibrate-samples");
    let out = folder.path("scales.json");
    let images = concat!(env!("CARGO_MANIFEST_DIR"), "/../../reef-models/tests/images");
    let more = ["--format", "int8", "--checks", "1", "--samples", images];
    let said = says(&calibrate(&out, &more));
    assert!(said.contains("22 storages of 2 samples"), "{said}");
    let array = folder.path("two.npy");
    std::fs::write(&array, npy(&[2, 3, 32, 32])).expect("a file");
    let said = says(&calibrate(&out, &["--format", "int8", "--samples", &array, "--checks", "1"]));
    assert!(said.contains("22 storages of 2 samples"), "{said}");
    let upper = folder.path("TWO.NPY");
    std::fs::copy(&array, &upper).expect("a file");
    let again = says(&calibrate(&out, &["--format", "int8", "--samples", &upper, "--checks", "1"]));
    assert_eq!(again, said, "an ending in capitals means the same");
    std::fs::write(&array, npy(&[3, 32, 31])).expect("a file");
    let error = reef(&calibrate(&out, &["--format", "int8", "--samples", &array]));
    assert_eq!(error.status.code(), Some(2));
    let want = "two.npy: must have a multiple of 3072 values, got 2976 (float32[3, 32, 31])";
    assert!(text(&error.stderr).contains(want), "{}", text(&error.stderr));
    let empty = folder.path("none");
    std::fs::create_dir(&empty).expect("a folder");
    let error = reef(&calibrate(&out, &["--format", "int8", "--check", &empty]));
    let want = format!("--check {empty}: must have .npy, .png or .jpg files");
    assert!(text(&error.stderr).contains(&want), "{}", text(&error.stderr));
}

#[test]
fn seed_and_counts_end_where_their_numbers_do() {
    let folder = Folder::new("calibrate-seed");
    let out = folder.path("scales.json");
    let last = u64::MAX.to_string();
    says(&calibrate(&out, &["--format", "int8", "--checks", "1", "--seed", &last]));
    for more in [["--count", "0"], ["--count", "65537"], ["--checks", "65537"]] {
        let args = ["model", "calibrate", "resnet18", "--format", "int8", "--out", &out];
        let error = reef(&[&args[..], &more].concat());
        assert_eq!(error.status.code(), Some(2), "{more:?}");
        assert!(text(&error.stderr).contains("65536"), "{}", text(&error.stderr));
    }
}

#[test]
fn error_counts_each_image_of_a_batch_once() {
    use crate::handmade::{file, ints, node, singles, value};
    let folder = Folder::new("calibrate-batch");
    let (network, array, out) =
        (folder.path("two.onnx"), folder.path("three.npy"), folder.path("scales.json"));
    let weight = |name| singles(name, &[4, 4, 1, 1], |at| (at % 7) as f32 / 7.0 - 0.4);
    let steps = [
        node("Conv", &["x", "a"], "c", &[ints("pads", &[0; 4])]),
        node("Conv", &["c", "b"], "d", &[ints("pads", &[0; 4])]),
        node("GlobalAveragePool", &["d"], "y", &[]),
        weight("a"),
        weight("b"),
        value(11, "x", &[2, 4, 5, 5]),
        value(12, "y", &[]),
    ];
    std::fs::write(&network, file(17, &steps)).expect("a file");
    std::fs::write(&array, npy(&[3, 4, 5, 5])).expect("a file");
    let all = ["model", "calibrate", &network, "--format", "int8", "--out", &out, "--samples"];
    let said = says(&[&all[..], &[&array]].concat());
    assert!(said.contains("of 2 samples\n"), "two batches: {said}");
    assert!(said.contains("error against floats, 3 images, plain loops:\n"), "{said}");
    assert!(said.contains(" of 3\n"), "{said}");
}

#[test]
fn two_files_of_scales_for_one_network_are_refused() {
    let folder = Folder::new("calibrate-twice");
    let [out, copy] = ["a.json", "b.json"].map(|name| folder.path(name));
    says(&calibrate(&out, &["--format", "int8", "--checks", "0"]));
    std::fs::copy(&out, &copy).expect("a file");
    let both = format!("{out},{copy}");
    let error = reef(&["bench", "networks", "resnet18", "--size", "32", "--scales", &both]);
    let want = format!("--scales {copy}: must be of a network of its own, got resnet18 twice");
    assert_eq!(error.status.code(), Some(2));
    assert!(text(&error.stderr).contains(&want), "{}", text(&error.stderr));
}

/// A file of numpy with zeros and ones.
fn npy(sizes: &[usize]) -> Vec<u8> {
    let sizes_text: Vec<_> = sizes.iter().map(usize::to_string).collect();
    let header = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}",
        sizes_text.join(", ")
    );
    let header = format!("{header:<117}\n");
    let values = (0..sizes.iter().product()).flat_map(|i: usize| ((i % 2) as f32).to_le_bytes());
    [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes()].concat().into_iter().chain(values).collect()
}

#[test]
fn devices_without_kernels_of_8_bits_say_so() {
    let folder = Folder::new("calibrate-cpu");
    let out = folder.path("scales.json");
    says(&calibrate(&out, &["--format", "int8", "--checks", "0"]));
    let endless = ["model", "verify", "resnet18", "--scales", "/dev/zero"];
    assert_eq!(refuses(&endless), "/dev/zero: must be a regular file, got a device");
    for command in [
        &["model", "verify", "resnet18", "--device", "cpu"][..],
        &["model", "profile", "resnet18", "--device", "cpu"],
        &["bench", "networks", "resnet18", "--device", "cpu"],
    ] {
        let error = reef(&[command, &["--size", "32", "--scales", &out]].concat());
        let said = text(&error.stderr);
        assert_eq!(error.status.code(), Some(2), "{said}");
        assert!(said.contains("unsupported: resnet18 in int8: "), "{said}");
    }
    let error = reef(&["bench", "networks", "resnet50", "--device", "cpu", "--scales", &out]);
    assert!(text(&error.stderr).contains("no model is resnet18"), "{}", text(&error.stderr));
}

#[test]
fn networks_that_are_not_for_images_are_refused() {
    let folder = Folder::new("calibrate-tensors");
    let out = folder.path("scales.json");
    refuses(&["model", "calibrate", "distilbert", "--format", "int8", "--out", &out]);
    let missing = ["model", "calibrate", "resnet18", "--format", "int8"];
    let unknown = ["model", "calibrate", "resnet18", "--format", "int4", "--out", &out];
    for args in [&missing[..], &unknown] {
        assert_eq!(reef(args).status.code(), Some(2), "{args:?}");
    }
}
