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
    let mut all = Vec::new();
    match output(Command::new("git").args(arguments.split(' '))) {
        Ok(text) => {
            all.extend(text.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from));
        }
        Err(_) => walk(Path::new(""), &mut all)?, // a copy without its history
    }
    all.sort();
    all.dedup();
    Ok(all)
}

/// Finds the files below a folder, without those of builds and of git.
fn walk(folder: &Path, all: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in std::fs::read_dir(listed).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = folder.join(entry.file_name());
        if !entry.file_type().map_err(failed)?.is_dir() {
            all.push(path);
        } else if !path.ends_with("target") && !path.ends_with(".git") {
            walk(&path, all)?;
        }
    }
    Ok(())
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
