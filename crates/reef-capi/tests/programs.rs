//! C and C++ programs against the installed library: they compile without warnings, say what Rust
//! computes, and are told their mistakes. Skipped aloud without a compiler.

#![cfg(target_os = "linux")]

mod declared;
mod installed;

use installed::{Link, compile, compiler, prefix, run};
use reef::cpu::Cpu;
use reef::models::Model;
use reef::op::Format;
use reef::scheduler::Reef;
use reef::{Device, Dispatcher, Task};

/// Image that `infer.c` draws.
fn image(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37) % 201) as f32 / 100.0 - 1.0).collect()
}

/// Output of the same request by the Rust library.
fn by_rust() -> Vec<f32> {
    let device = Cpu::open(0, "units=2").unwrap();
    let network = Model::open("resnet18").input_size(32).load(&device).unwrap();
    network.stage_input(&image(network.input_len())).unwrap();
    let dispatcher = Dispatcher::start(&device, Reef::default()).unwrap();
    let task = Task::new(network.inference()).unwrap();
    dispatcher.real_time().unwrap().run(&task).unwrap();
    network.staged_output().unwrap()
}

fn bits(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_ne_bytes(word)).collect()
}

#[test]
fn c_gets_the_bits_that_rust_gets() {
    let Some(cc) = compiler("cc") else { return };
    let want: Vec<u32> = by_rust().iter().map(|value| value.to_bits()).collect();
    for link in [Link::Shared, Link::Static] {
        let program = compile(&cc, "examples/c/infer.c", &["-std=c99", "-pedantic"], link);
        let file = prefix().join(format!("{link:?}.out"));
        let said = run(&program, &["cpu:0?units=2", "resnet18", "32", file.to_str().unwrap()]);
        assert!(said.starts_with("resnet18: 3x32x32, class "), "{said}");
        assert_eq!(bits(&std::fs::read(&file).unwrap()), want, "{link:?}");
    }
}

#[test]
fn cplusplus_runs_both_classes() {
    let Some(cxx) = compiler("c++") else { return };
    let flags = ["-std=c++17", "-pedantic", "-pthread"];
    let program = compile(&cxx, "examples/c/two_classes.cpp", &flags, Link::Shared);
    let said = run(&program, &["cpu:0?units=2", "resnet18", "resnet18", "32", "3"]);
    assert_eq!(said.lines().filter(|line| line.starts_with("real-time: ")).count(), 3, "{said}");
    assert!(said.contains(" best-effort requests meanwhile, "), "{said}");
}

#[test]
fn texts_with_a_zero_byte_are_refused() {
    let Some(cxx) = compiler("c++") else { return };
    let flags = ["-std=c++14", "-pedantic"];
    let program = compile(&cxx, "crates/reef-capi/tests/c/texts.cpp", &flags, Link::Shared);
    assert_eq!(run(&program, &[]), "refused\n".repeat(3));
}

#[test]
fn mistakes_are_told() {
    let Some(cc) = compiler("cc") else { return };
    let program =
        compile(&cc, "crates/reef-capi/tests/c/misuse.c", &["-std=c99", "-pthread"], Link::Shared);
    let scales = prefix().join("scales.json");
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    let (device, image) = (Cpu::open(0, "units=2").unwrap(), image(model.input_len()));
    model.calibrate(&device, Format::Int8, 100.0, [image]).unwrap().save(&scales).unwrap();
    assert_eq!(run(&program, &[scales.to_str().unwrap()]), "0 mistakes were not told\n");
}

/// ONNX file of a network with two inputs, x of two floats and n of two int64, and two outputs: sum
/// is x + n, and twice is n + n.
const TENSORS: &[u8] =
    b"\x08\x09\x12\x00:\x8c\x01\x0a\x17\x0a\x01n\x12\x01f\x22\x04Cast*\x09\x0a\x02to\x18\
    \x01\xa0\x01\x02\x0a\x10\x0a\x01x\x0a\x01f\x12\x03sum\x22\x03Add\x0a\x12\x0a\x01n\
    \x0a\x01n\x12\x05twice\x22\x03Add\x12\x01tZ\x0f\x0a\x01x\x12\x0a\x0a\x08\x08\x01\x12\
    \x04\x0a\x02\x08\x02Z\x0f\x0a\x01n\x12\x0a\x0a\x08\x08\x07\x12\x04\x0a\x02\x08\x02\
    b\x11\x0a\x03sum\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x02b\x13\x0a\x05twic\
    e\x12\x0a\x0a\x08\x08\x07\x12\x04\x0a\x02\x08\x02B\x04\x0a\x00\x10\x11";

/// ONNX file of a network with one input, x of four floats, and one output, the places of those
/// that are not 0: int64 of the shape (1, n).
const PLACES: &[u8] =
    b"\x08\x09\x12\x00:=\x0a\x10\x0a\x01x\x12\x02at\x22\x07NonZero\x12\x01tZ\x0f\x0a\
    \x01x\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x04b\x15\x0a\x02at\x12\x0f\x0a\
    \x0d\x08\x07\x12\x09\x0a\x02\x08\x01\x0a\x03\x12\x01nB\x04\x0a\x00\x10\x11";

#[test]
fn tensors_of_several_types_go_in_and_out() {
    let Some(cc) = compiler("cc") else { return };
    let flags = ["-std=c99", "-pedantic"];
    let program = compile(&cc, "crates/reef-capi/tests/c/tensors.c", &flags, Link::Shared);
    let [tensors, places] = [("tensors.onnx", TENSORS), ("places.onnx", PLACES)].map(|file| {
        let path = prefix().join(file.0);
        std::fs::write(&path, file.1).unwrap();
        path
    });
    let said = run(&program, &[tensors.to_str().unwrap(), places.to_str().unwrap()]);
    assert_eq!(said, "2.5 4 4 6\n(1, -1) in 32 bytes: 2, at 1 and 2\n");
}

#[test]
fn a_program_of_the_cuda_port_preempts_a_stream() {
    let Some(cxx) = compiler("c++") else { return };
    let flags = ["-std=c++17", "-pedantic", "-pthread"];
    let program = compile(&cxx, "crates/reef-capi/tests/c/port.cpp", &flags, Link::Port);
    assert_eq!(run(&program, &[]), "preempted and restored\n");
}

/// Without cbindgen, which few have: `tools/capi_header.sh --check` compares all of it.
#[test]
fn the_header_declares_what_the_sources_do() {
    let (header, sources) = (declared::by_header(), declared::by_sources());
    assert!(header.len() > 50, "{header:#?}");
    for name in header.keys().chain(sources.keys()) {
        let [in_header, in_sources] = [&header, &sources].map(|all| all.get(name));
        assert_eq!(in_header, in_sources, "{name}: tools/capi_header.sh makes the header");
    }
}

#[test]
fn the_header_has_the_words_of_the_sources() {
    let (header, comments) = (declared::comments_of_header(), declared::comments_of_sources());
    assert!(comments.len() > 80, "{comments:#?}");
    let missing: Vec<_> = comments.iter().filter(|text| !header.contains(text.as_str())).collect();
    assert!(missing.is_empty(), "tools/capi_header.sh makes the header: {missing:#?}");
}
