//! Files of the workspace and their contents.

use super::workspace::{Packages, owner};
use crate::cargo::output;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files that git doesn't ignore, by their packages; `None`: of no package.
pub(super) type Files = BTreeMap<Option<String>, Vec<PathBuf>>;

/// All files of the workspace.
pub(super) fn all(packages: &Packages) -> Result<Files, String> {
    let mut all = Files::new();
    for file in names()? {
        let of = owner(packages, &file).map(str::to_owned);
        all.entry(of).or_default().push(file);
    }
    Ok(all)
}

/// Names in order, each once.
fn names() -> Result<Vec<PathBuf>, String> {
    let arguments = "-c safe.directory=* ls-files -z --cached --others --exclude-standard";
    let text = output(Command::new("git").args(arguments.split(' ')))?;
    let mut all: Vec<_> =
        text.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    all.sort();
    all.dedup();
    Ok(all)
}

/// Returns whether the file is one of a package's tests, benches and examples, which its users
/// don't see.
pub(super) fn is_for_tests(folder: &Path, file: &Path) -> bool {
    let inside = file.strip_prefix(folder).unwrap_or(file);
    ["tests", "benches", "examples"].iter().any(|name| inside.starts_with(name))
}

/// Adds a file's name and contents to a hash; a file that is gone has none.
pub(super) fn add(hash: &mut blake3::Hasher, file: &Path) {
    let name = file.as_os_str().as_encoded_bytes();
    let content = std::fs::read(file).unwrap_or_default();
    for part in [name, &content] {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
}
