//! Gives the library the driver's name, and exports the names that it doesn't play as functions
//! that refuse.

use reef_cuda_abi::generate::{played, stubs, write};
use reef_cuda_abi::names;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/calls");
    println!("cargo::rerun-if-changed=../reef-remote-calls/src/table.rs");
    // Threads of ours run in the library, so it stays loaded.
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1,-z,nodelete,-z,defs,-Bsymbolic"
    );
    let sources = ["src/calls", "../reef-remote-calls/src/table.rs"];
    let played: BTreeSet<String> = sources.iter().flat_map(|at| played(Path::new(at))).collect();
    let others = names().filter(|name| !played.contains(*name));
    write("stubs.rs", stubs(others, "crate::refused::refuse(c\"NAME\")"));
    let known: Vec<&str> = names().filter(|name| played.contains(*name)).collect();
    let mut text = String::from("unsafe extern \"C\" {\n");
    known.iter().for_each(|name| writeln!(text, "    fn {name}();").expect("a string takes all"));
    let size = known.len();
    writeln!(text, "}}\n\npub(crate) static PLAYED: [Played; {size}] = [")
        .expect("a string takes all");
    let entry = |name: &&str| format!("    Played {{ name: \"{name}\", ours: {name} }},\n");
    text.extend(known.iter().map(entry));
    text.push_str("];\n");
    write("played.rs", text);
}
