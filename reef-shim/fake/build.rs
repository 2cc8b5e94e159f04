//! Gives the library the driver's name, and exports the names that it doesn't play as functions
//! that say so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/api");
    println!("cargo::rerun-if-changed=../names.txt");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1,-Bsymbolic");
    let names = std::fs::read_to_string("../names.txt").expect("names.txt is in the folder above");
    let played = played(Path::new("src/api"));
    let stub = |name: &str| {
        format!(
            "#[unsafe(no_mangle)]\nextern \"C\" fn {name}() -> u32 {{ crate::api::code::NOT_SUPPORTED }}\n"
        )
    };
    let stubs: String = names
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !played.contains(*name))
        .map(stub)
        .collect();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join("stubs.rs"), stubs).expect("OUT_DIR can be written");
}

/// All words of the sources that look like the driver's functions.
fn played(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).expect("src/api is there");
    let words = |path: PathBuf| {
        if path.is_dir() {
            return played(&path);
        }
        let text = std::fs::read_to_string(path).expect("src/api can be read");
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("cu")).map(str::to_owned).collect()
    };
    entries.flat_map(|entry| words(entry.expect("src/api can be read").path())).collect()
}
