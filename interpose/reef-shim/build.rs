//! Gives the library the driver's name, and makes a function of each of the driver's names, which
//! reef-cuda-abi has.

#![allow(clippy::disallowed_methods)] // of the crate's own files

use reef_cuda_abi::generate::write;
use reef_cuda_abi::names;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/hooks");
    // Threads and handlers of ours point into the library, so it stays loaded. References to our
    // own functions bind to them, even if other libraries have functions of these names.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1,-z,nodelete,-Bsymbolic");
    let names: Vec<&str> = names().collect();
    let hooked = hooked(Path::new("src/hooks"));
    write("names.rs", table(&names));
    write("thunks.rs", thunks(&names, &hooked));
    let known: Vec<_> = names.iter().filter(|name| hooked.contains(**name)).copied().collect();
    assert_eq!(known.len(), hooked.len(), "a hook isn't among the names: {hooked:?}");
    write("hooks.rs", list("HOOKS", &known));
    let others: Vec<_> = names.iter().filter(|name| !hooked.contains(**name)).copied().collect();
    write("jumps.rs", list("JUMPS", &others));
}

/// The slot of each name, and the names.
fn table(names: &[&str]) -> String {
    let mut text = format!("pub(crate) const NAMES: [&std::ffi::CStr; {}] = [\n", names.len());
    names.iter().for_each(|name| writeln!(text, "    c\"{name}\",").expect("a string takes all"));
    text.push_str("];\n");
    for (slot, name) in names.iter().enumerate() {
        writeln!(text, "pub(crate) const {name}: usize = {slot};").expect("a string takes all");
    }
    text
}

/// A jump for each name without a hook.
fn thunks(names: &[&str], hooked: &BTreeSet<String>) -> String {
    let plain = names.iter().enumerate().filter(|(_, name)| !hooked.contains(**name));
    plain.map(|(slot, name)| format!("thunk!({name}, {slot});\n")).collect()
}

/// A list of our own functions by their exported names, with their slots.
fn list(title: &str, names: &[&str]) -> String {
    let declared: String = names.iter().map(|name| format!("    fn {name}();\n")).collect();
    let entry =
        |name: &&str| format!("    Hook {{ slot: crate::driver::names::{name}, ours: {name} }},\n");
    let entries: String = names.iter().map(entry).collect();
    format!(
        "unsafe extern \"C\" {{\n{declared}}}\n\npub(super) static {title}: [Hook; {}] = [\n{entries}];\n",
        names.len()
    )
}

/// The names that the sources of hooks declare: ` name(` or ` name / per-thread variant(` at a
/// line's beginning.
fn hooked(folder: &Path) -> BTreeSet<String> {
    let files = std::fs::read_dir(folder).expect("src/hooks is there");
    let text = |file: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(file.expect("src/hooks can be read").path()).expect("is text")
    };
    let text: String = files.map(text).collect();
    let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
    let lines = lines.map(|line| line.trim_end_matches(" /")); // further names are on the next line
    let declared =
        lines.filter(|line| line.starts_with("cu")).filter_map(|line| line.split('(').next());
    declared.flat_map(|names| names.split(" / ")).map(|name| name.trim().to_owned()).collect()
}
