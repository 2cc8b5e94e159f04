//! Texts that build programs write: parts of libraries in the driver's place.
//!
//! Functions end the build program with a panic if a file can't be read or written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns all words of the sources in a folder, or of one file, that look like the driver's
/// functions. Comments don't count.
///
/// # Panics
///
/// The sources cannot be read.
pub fn played(place: &Path) -> BTreeSet<String> {
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

/// Returns functions of these names with one body. `NAME` in it stands for the name.
pub fn stubs<'a>(names: impl Iterator<Item = &'a str>, body: &str) -> String {
    let stub = |name: &'a str| {
        let body = body.replace("NAME", name);
        format!("#[unsafe(no_mangle)]\nextern \"C\" fn {name}() -> u32 {{ {body} }}\n")
    };
    names.map(stub).collect()
}

/// Writes a file for `include!` into the folder that cargo gives a build program.
///
/// # Panics
///
/// Cargo has given no folder, or the file cannot be written.
pub fn write(name: &str, text: String) {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join(name), text).expect("OUT_DIR can be written");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stub_has_its_name_in_its_body() {
        let stubs = stubs(["cuA", "cuB"].into_iter(), "refuse(c\"NAME\")");
        assert!(stubs.contains("extern \"C\" fn cuB() -> u32 { refuse(c\"cuB\") }"), "{stubs}");
        assert_eq!(stubs.lines().count(), 4);
    }

    #[test]
    fn played_words_are_those_of_code() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generate.rs");
        let words = played(&source);
        assert!(words.contains("cuA") && !words.contains("stub"), "{words:?}");
        assert!(!words.contains(&format!("cu{}", "InComment")), "{words:?}"); // cuInComment
    }
}
