//! The workspace's crates and their sources.

use super::items::{attributes, is_for_tests};
use proc_macro2::{TokenStream, TokenTree};
use std::path::{Path, PathBuf};

/// A crate of the workspace that others use: a package, or the command.
pub(super) struct Crate {
    /// Folder below the workspace's, without slashes; `reef` for the workspace's own.
    pub(super) name: String,
    pub(super) is_library: bool,
    /// In the order in which they are declared. The first is the root.
    pub(super) modules: Vec<Module>,
}

/// File of a crate.
pub(super) struct Module {
    /// Path of the module, without the crate's name.
    pub(super) path: Vec<String>,
    /// Each module on the path is `pub`.
    pub(super) is_public: bool,
    pub(super) source: String,
    pub(super) tokens: Vec<TokenTree>,
}

/// Crates that are made for the tests alone, or that check.
const LEFT_OUT: &[&str] = &["xtask", "xtask/unify", "fuzz", "kernels/build"];

/// Reads all crates.
pub(super) fn all(manifests: &[String]) -> Result<Vec<Crate>, String> {
    let mut all = Vec::new();
    for manifest in manifests {
        let folder = manifest.trim_end_matches("Cargo.toml").trim_end_matches('/');
        let is_test = folder.ends_with("/loom") || folder.starts_with("sim/fake-");
        if is_test || LEFT_OUT.contains(&folder) {
            continue;
        }
        let library = Path::new(folder).join("src/lib.rs");
        let is_library = library.is_file();
        let root = if is_library { library } else { Path::new(folder).join("src/main.rs") };
        let name = name(folder);
        let mut modules = Vec::new();
        read(&root, Module::root(), &mut modules)?;
        all.push(Crate { name, is_library, modules });
    }
    Ok(all)
}

/// Folders of crates that are not crates. One that is inside of another comes first.
const GROUPS: &[&str] = &["crates/images/", "crates/", "interpose/", "remote/", "sim/"];

/// Name of a crate's snapshot.
fn name(folder: &str) -> String {
    let inner = GROUPS.iter().find_map(|group| folder.strip_prefix(group)).unwrap_or(folder);
    if inner.is_empty() { "reef".into() } else { inner.replace('/', "-") }
}

impl Module {
    fn root() -> Self {
        Self { path: Vec::new(), is_public: true, source: String::new(), tokens: Vec::new() }
    }
}

/// Adds the module of a file, and those below it.
fn read(file: &Path, mut module: Module, all: &mut Vec<Module>) -> Result<(), String> {
    module.source =
        std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let stream: TokenStream =
        module.source.parse().map_err(|error| format!("{}: {error}", file.display()))?;
    module.tokens = stream.into_iter().collect();
    let (path, is_public) = (module.path.clone(), module.is_public);
    let children = children(&module.tokens, file, path.len());
    all.push(module);
    for child in children {
        let path = [&path[..], &[child.name]].concat();
        let is_public = is_public && child.is_public;
        read(&child.file, Module { path, is_public, ..Module::root() }, all)?;
    }
    Ok(())
}

struct Child {
    name: String,
    is_public: bool,
    file: PathBuf,
}

/// Modules that a file declares by `mod x;`, without those of its tests.
fn children(tokens: &[TokenTree], file: &Path, depth: usize) -> Vec<Child> {
    let mut children = Vec::new();
    let mut begin = 0;
    for (at, token) in tokens.iter().enumerate() {
        let is_end = match token {
            TokenTree::Punct(sign) => sign.as_char() == ';',
            TokenTree::Group(group) => group.delimiter() == proc_macro2::Delimiter::Brace,
            _ => false,
        };
        if !is_end {
            continue;
        }
        let (attributes, item) = attributes(&tokens[begin..at]);
        begin = at + 1;
        let words: Vec<String> = item.iter().map(ToString::to_string).collect();
        let Some(name) = words.iter().position(|word| word == "mod").and_then(|m| words.get(m + 1))
        else {
            continue;
        };
        if is_for_tests(&attributes) || matches!(token, TokenTree::Group(_)) {
            continue;
        }
        let is_public = words[0] == "pub" && words[1] == "mod";
        let given = attributes.iter().find_map(|attribute| {
            attribute.strip_prefix("path = \"")?.strip_suffix('"').map(str::to_owned)
        });
        let file = match given {
            Some(path) => file.with_file_name(path),
            None => file_of(file, name, depth),
        };
        children.push(Child { name: name.clone(), is_public, file });
    }
    children
}

/// `x.rs` or `x/mod.rs`, below the file that declares module `x`.
fn file_of(file: &Path, name: &str, depth: usize) -> PathBuf {
    let is_face = depth == 0 || file.ends_with("mod.rs");
    let folder = if is_face { file.with_file_name("") } else { file.with_extension("") };
    let single = folder.join(format!("{name}.rs"));
    if single.is_file() { single } else { folder.join(name).join("mod.rs") }
}
