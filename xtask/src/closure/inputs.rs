//! Files that packages read and that belong neither to them nor to what they use.

use super::files::{self, Files};
use super::workspace::{Packages, owner, used};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Files and folders by the package whose sources or tests read them.
const INPUTS: &[(&str, &[&str])] = &[
    (
        "reef-capi",
        &[
            "docs/capi.md",
            "docs/reference/python.md",
            "examples/c",
            "reef-models/tests",
            "tools/install_capi.sh",
        ],
    ),
    (
        "reef-cli",
        &[
            "README.md",
            "crates/reef-python/README.md",
            "crates/reef-serve/README.md",
            "docs",
            "examples",
            "interpose/reef-ptx/tests/corpus",
            "reef-models/tests",
            "remote/reef-remote-worker/tests/support/memory.rs",
            "tests/networks/program",
        ],
    ),
    ("reef-cpu-loom", &["crates/reef-cpu/src/sync"]),
    ("reef-cuda", &["crates/images", "interpose/reef-ptx/tests/bump.fatbin"]),
    ("reef-gfx906", &["reef-hip/images"]),
    ("reef-gpu", &["kernels"]),
    (
        "reef-guest-loom",
        &[
            "interpose/reef-guest/src/hold",
            "interpose/reef-guest/src/limit",
            "interpose/reef-guest/src/registry",
        ],
    ),
    ("reef-k8s", &["deploy"]),
    ("reef-kernels", &["crates/images", "kernels", "reef-cuda/src", "reef-hip/images"]),
    ("reef-loom", &["reef-core/src/backend", "reef-core/src/sync", "reef-core/src/vqueue"]),
    ("reef-remote", &["reef-models/tests/integration/eight_bits"]),
    (
        "reef-remote-worker",
        &["fuzz/seeds/requests", "remote/reef-cudart/tests", "interpose/reef-shim/tests"],
    ),
    ("reef-rt", &["reef-models/tests"]),
    (
        "reef-serve",
        &[
            "crates/reef-python/python",
            "deploy",
            "docs/operate",
            "docs/reference/configuration.md",
            "examples/process",
            "fuzz/seeds/onnx",
            "reef-models/tests",
            "tests/networks/program",
            "tools/tritonclient.sh",
        ],
    ),
    ("reef-serve-loom", &["crates/reef-serve/src/local"]),
    ("reef-shim", &["interpose/reef-ptx/tests"]),
    ("reef-simulate", &["docs/results", "docs/simulate"]),
    ("reef-snapshot", &["reef-models/tests/onnx"]),
    ("reef-wire-loom", &["remote/reef-wire/src/exchange", "remote/reef-wire/src/transport"]),
    ("xtask", &["docs/reference/support.md", "tests/snapshots/versions.txt"]),
];

/// Folders that a text names without a slash. Any other such text is a name and no path.
const FOLDERS: &[&str] = &["deploy", "docs", "fuzz", "tools"];

/// Files that a package reads elsewhere.
pub(super) fn of<'a>(name: &str, files: &'a Files) -> impl Iterator<Item = &'a PathBuf> {
    let paths: Vec<&str> = paths(name).collect();
    let all = files.values().flatten();
    all.filter(move |file| paths.iter().any(|path| file.starts_with(path)))
}

fn paths(name: &str) -> impl Iterator<Item = &'static str> {
    let of_package = INPUTS.iter().filter(move |(of, _)| *of == name);
    of_package.flat_map(|(_, paths)| paths.iter().copied())
}

/// Says which text of a source names a file that is not among the inputs of its package, and which
/// lines of the table name nothing.
pub(super) fn faults(packages: &Packages, files: &Files) -> Result<Vec<String>, String> {
    let known = names(files);
    let mut all: Vec<String> = INPUTS
        .iter()
        .flat_map(|(of, paths)| paths.iter().map(move |path| (of, path)))
        .filter(|(of, path)| !packages.contains_key(**of) || !known.contains(Path::new(path)))
        .map(|(of, path)| format!("inputs of {of}: {path} must be there"))
        .collect();
    // Sources of xtask mostly name files that its steps check, and these always run. What its tests
    // read stands in the table.
    for name in packages.keys().filter(|name| *name != "xtask") {
        let of = files.get(&Some(name.clone())).into_iter().flatten();
        for source in of.filter(|file| file.extension().is_some_and(|e| e == "rs")) {
            all.extend(faults_of(packages, &known, name, source)?);
        }
    }
    Ok(all)
}

/// Names of all files and folders.
fn names(files: &Files) -> BTreeSet<&Path> {
    files.values().flatten().flat_map(|file| file.ancestors()).collect()
}

fn faults_of(
    packages: &Packages,
    known: &BTreeSet<&Path>,
    name: &str,
    source: &Path,
) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(source).map_err(|e| format!("{}: {e}", source.display()))?;
    let bases = [source.parent().unwrap_or(Path::new("")), &packages[name].folder, Path::new("")];
    let mut all = BTreeSet::new();
    for text in literals(&text).map_err(|error| format!("{}: {error}", source.display()))? {
        // The nearest file or folder of this name.
        let mut near = bases.iter().filter_map(|base| inside(base, &text));
        let path = near.find(|path| known.contains(&**path));
        if let Some(path) = path.filter(|path| !is_input(packages, name, path)) {
            let (source, path) = (source.display(), path.display());
            all.insert(format!("inputs of {name}: {path} must be among them: {source} names it"));
        }
    }
    Ok(all.into_iter().collect())
}

/// Returns whether a file or folder is among the inputs of a package.
fn is_input(packages: &Packages, name: &str, path: &Path) -> bool {
    if paths(name).any(|input| path.starts_with(input)) {
        return true;
    }
    let Some(of) = owner(packages, path) else { return false };
    let is_library = !files::is_for_tests(&packages[of].folder, path);
    of == name || (is_library && used(packages, name).contains(of))
}

/// Path in the workspace that a text names from a folder, if it may be one.
fn inside(base: &Path, text: &str) -> Option<PathBuf> {
    // The part before the first value that is put in.
    let text = text.split('{').next()?;
    // `../..` alone is the workspace, as a base of other paths.
    let is_base = text.split('/').all(|part| ["", ".", ".."].contains(&part));
    let is_path = text.contains('/') && !text.contains(char::is_whitespace) && !is_base;
    let (is_path, text) = (is_path || FOLDERS.contains(&text), text.trim_start_matches('/'));
    let mut path = PathBuf::new();
    for part in base.join(text).components().filter(|_| is_path) {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => {
                path.pop().then_some(())?;
            }
            _ => {}
        }
    }
    (!path.as_os_str().is_empty()).then_some(path)
}

/// Texts in a source, those of documentation left out.
fn literals(source: &str) -> Result<Vec<String>, proc_macro2::LexError> {
    let mut all = Vec::new();
    collect(source.parse::<TokenStream>()?, &mut all);
    Ok(all)
}

fn collect(tokens: TokenStream, all: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect(group.stream(), all),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                all.extend(inner.map(str::to_owned));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_a_path_from_its_folder() {
        let from = |text| inside(Path::new("core/tests"), text);
        assert_eq!(from("../../kernels/a.cu"), Some("kernels/a.cu".into()));
        assert_eq!(from("/../data/{name}.json"), Some("core/data".into()));
        assert_eq!(from("../../../../a"), None, "outside of the workspace");
        assert_eq!(from("/.."), None, "a base of other paths");
        assert_eq!([from("a text"), from("kernels"), from("")], [None, None, None]);
    }

    #[test]
    fn page_that_a_test_of_xtask_reads_is_an_input() {
        let paths = ["docs/cuda.md", "docs/reference/support.md"].map(PathBuf::from);
        let files = Files::from([(None, paths.to_vec())]);
        assert!(of("xtask", &files).eq([&paths[1]]));
    }

    #[test]
    fn literals_in_macros_are_seen() {
        let source =
            r#"const A: &str = include_str!("../a"); mod b { fn c() { d(concat!("e")) } }"#;
        assert_eq!(literals(source).unwrap(), ["../a", "e"]);
    }
}
