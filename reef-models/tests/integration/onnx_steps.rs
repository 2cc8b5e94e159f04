//! Networks for images from ONNX files become the steps that they always became: as many, with
//! the same names, operations and shapes.

#![cfg(feature = "onnx")]

use reef_models::Model;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// FNV-1a of 64 bits.
fn digest(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|of| of == "onnx")).collect();
    files.sort();
    files
}

#[test]
fn steps_of_each_network_stay_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx");
    let mut lines = String::new();
    for file in files(&folder).into_iter().chain(files(&folder.join("torch"))) {
        let model = Model::open(&file).images_only().read().unwrap();
        let (image, _) = model.image().unwrap();
        let text = image.to_json().unwrap();
        // Names and sizes of the file are not steps.
        let is_step =
            |line: &&str| !["\"ports\"", "\"sizes\""].iter().any(|key| line.starts_with(key));
        let text: String = text.split_inclusive('\n').filter(is_step).collect();
        let name = file.file_stem().unwrap().to_string_lossy();
        writeln!(lines, "{name} {} {:016x}", image.layers().len(), digest(&text)).unwrap();
    }
    assert_eq!(lines, include_str!("../onnx/steps.txt"));
}
