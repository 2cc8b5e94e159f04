// Part of build programs: what libraries in the driver's place are made of. `names.txt` has the
// driver's names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The driver's names.
fn driver_names(file: &str) -> Vec<String> {
    println!("cargo::rerun-if-changed={file}");
    let names = std::fs::read_to_string(file).expect("names.txt is there");
    names.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// All words of the sources in a folder, or of one file, that look like the driver's functions.
/// Comments don't count.
#[allow(dead_code)] // not all build programs need it
fn played(place: &Path) -> BTreeSet<String> {
    let words = |path: &Path| {
        let text = std::fs::read_to_string(path).expect("sources can be read");
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        let words = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
        words.filter(|word| word.starts_with("cu")).map(str::to_owned).collect()
    };
    if !place.is_dir() {
        return words(place);
    }
    let entries = std::fs::read_dir(place).expect("the folder is there");
    entries.flat_map(|entry| played(&entry.expect("it can be read").path())).collect()
}

/// Functions of these names with one body. `NAME` in it stands for the name.
#[allow(dead_code)] // not all build programs need it
fn stubs<'a>(names: impl Iterator<Item = &'a String>, body: &str) -> String {
    let stub = |name: &String| {
        let body = body.replace("NAME", name);
        format!("#[unsafe(no_mangle)]\nextern \"C\" fn {name}() -> u32 {{ {body} }}\n")
    };
    names.map(stub).collect()
}

/// Writes a file for `include!`.
fn write(name: &str, text: String) {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join(name), text).expect("OUT_DIR can be written");
}
