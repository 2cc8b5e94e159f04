//! Exports the runtime's names under the versions of both releases, and makes functions that refuse
//! of those that are not written.
//!
//! The linker must take a version script besides the one that rustc writes, as rust-lld does.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Names that mean another function since CUDA 13, and the function's name in sources.
const RENAMED: [(&str, &str); 18] = [
    ("cudaEventElapsedTime", "cudaEventElapsedTime_v2"),
    ("cudaGetDeviceProperties", "cudaGetDeviceProperties_v13"),
    ("cudaGetDriverEntryPoint", "cudaGetDriverEntryPoint_v13"),
    ("cudaGetDriverEntryPoint_ptsz", "cudaGetDriverEntryPoint_v13_ptsz"),
    ("cudaGraphAddDependencies", "cudaGraphAddDependencies_v2"),
    ("cudaGraphAddNode", "cudaGraphAddNode_v2"),
    ("cudaGraphGetEdges", "cudaGraphGetEdges_v2"),
    ("cudaGraphNodeGetDependencies", "cudaGraphNodeGetDependencies_v2"),
    ("cudaGraphNodeGetDependentNodes", "cudaGraphNodeGetDependentNodes_v2"),
    ("cudaGraphRemoveDependencies", "cudaGraphRemoveDependencies_v2"),
    ("cudaMemAdvise", "cudaMemAdvise_v2"),
    ("cudaMemPrefetchAsync", "cudaMemPrefetchAsync_v2"),
    ("cudaMemPrefetchAsync_ptsz", "cudaMemPrefetchAsync_v2_ptsz"),
    ("cudaRuntimeGetVersion", "cudaRuntimeGetVersion_v13"),
    ("cudaStreamGetCaptureInfo", "cudaStreamGetCaptureInfo_v3"),
    ("cudaStreamGetCaptureInfo_ptsz", "cudaStreamGetCaptureInfo_v3_ptsz"),
    ("cudaStreamUpdateCaptureDependencies", "cudaStreamUpdateCaptureDependencies_v2"),
    ("cudaStreamUpdateCaptureDependencies_ptsz", "cudaStreamUpdateCaptureDependencies_v2_ptsz"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/calls");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let write = |name: &str, text: &str| {
        std::fs::write(out.join(name), text).expect("OUT_DIR can be written");
    };
    write("versions.map", "libcudart.so.12 {};\nlibcudart.so.13 {};\n");
    let script = out.join("versions.map");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", script.display());
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,-soname,libcudart.so.13,-z,nodelete,-z,defs,-Bsymbolic"
    );
    let written = written(Path::new("src/calls"));
    let mut asm = String::from(".text\n");
    for (version, sign) in [(12, "@"), (13, "@@")] {
        for name in names(&format!("names{version}.txt")) {
            let renamed = RENAMED.iter().find(|(of, _)| version == 13 && *of == name);
            let function = renamed.map_or(&*name, |(_, function)| function);
            let own = format!("reef{version}_{name}");
            write!(asm, ".globl {own}\n.type {own}, @function\n{own}:\n").expect("a string");
            if written.contains(function) {
                writeln!(asm, "    jmp reef_{function}").expect("a string");
            } else {
                writeln!(asm, "    lea rdi, [rip + 7f]\n    jmp reef_cudart_refuse")
                    .expect("a string");
                writeln!(asm, "7:\n    .asciz \"{name}\"").expect("a string");
            }
            writeln!(asm, ".symver {own}, {name}{sign}libcudart.so.{version}").expect("a string");
        }
    }
    write("exports.s", &asm);
}

fn names(file: &str) -> Vec<String> {
    println!("cargo::rerun-if-changed={file}");
    let text = std::fs::read_to_string(file).expect("the names are there");
    text.lines().map(str::to_owned).collect()
}

/// All words of the sources in a folder, but for comments, that look like the runtime's functions.
fn written(place: &Path) -> BTreeSet<String> {
    if !place.is_dir() {
        let text = std::fs::read_to_string(place).expect("sources can be read");
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let words = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
        let is_name = |word: &&str| word.starts_with("cuda") || word.starts_with("__cuda");
        return words.filter(is_name).map(str::to_owned).collect();
    }
    let entries = std::fs::read_dir(place).expect("the folder is there");
    entries.flat_map(|entry| written(&entry.expect("it can be read").path())).collect()
}
