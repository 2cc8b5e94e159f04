//! Hashes of packages' inputs.

use super::files::{self, Files};
use super::workspace::{Package, Packages, used};
use super::{inputs, unify};
use crate::cargo::output;
use blake3::{Hash, Hasher};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Hashes of one package's own files.
struct OwnHashes {
    /// Hash of what its users compile.
    library: Hash,
    all: Hash,
}

/// Hashes of what a step of each package depends on.
pub(super) fn all(
    packages: &Packages,
    files: &Files,
    step: &str,
) -> Result<BTreeMap<String, Hash>, String> {
    let common = common(step)?;
    let own = |(name, package): (&String, &Package)| (name.clone(), own(name, package, files));
    let own: BTreeMap<String, OwnHashes> = packages.iter().map(own).collect();
    let all = packages.keys().map(|name| {
        let mut hash = Hasher::new();
        hash.update(common.as_bytes()).update(own[name].all.as_bytes());
        for used in used(packages, name) {
            hash.update(used.as_bytes()).update(own[&used].library.as_bytes());
        }
        (name.clone(), hash.finalize())
    });
    Ok(all.collect())
}

/// Hash of what all packages have in common: the compiler, the command, the lock file, profiles and
/// lints.
fn common(step: &str) -> Result<Hash, String> {
    let mut hash = Hasher::new();
    hash.update(output(Command::new("rustc").arg("-Vv"))?.as_bytes()).update(step.as_bytes());
    ["Cargo.lock", ".cargo/config.toml", unify::MANIFEST]
        .iter()
        .for_each(|file| files::add(&mut hash, Path::new(file)));
    let manifest = std::fs::read_to_string("Cargo.toml").map_err(|e| format!("Cargo.toml: {e}"))?;
    hash.update(of_workspace(&manifest).as_bytes());
    Ok(hash.finalize())
}

/// The part of the workspace's manifest that is of all packages.
fn of_workspace(manifest: &str) -> &str {
    manifest.split("\n[package]").next().unwrap_or(manifest)
}

fn own(name: &str, package: &Package, files: &Files) -> OwnHashes {
    let (mut library, mut all) = (Hasher::new(), Hasher::new());
    for file in own_files(name, files) {
        files::add(&mut all, file);
        if !files::is_for_tests(&package.folder, file) {
            files::add(&mut library, file);
        }
    }
    OwnHashes { library: library.finalize(), all: all.finalize() }
}

/// Files of a package, and those that it reads elsewhere.
fn own_files<'a>(name: &str, files: &'a Files) -> impl Iterator<Item = &'a PathBuf> {
    let own = files.get(&Some(name.to_owned())).into_iter().flatten();
    own.chain(inputs::of(name, files))
}

/// Files that the hash of a package is made of, but for what all have in common.
pub(super) fn files_of(packages: &Packages, files: &Files, name: &str) -> BTreeSet<PathBuf> {
    let library = |used: String| {
        let folder = &packages[&used].folder;
        let seen = |file: &&PathBuf| !files::is_for_tests(folder, file);
        own_files(&used, files).filter(seen).cloned().collect::<Vec<_>>()
    };
    let of_others = used(packages, name).into_iter().flat_map(library);
    own_files(name, files).cloned().chain(of_others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_of_the_workspace_ends_where_its_package_begins() {
        assert_eq!(of_workspace("[workspace]\na = 1\n[package]\nb = 2\n"), "[workspace]\na = 1");
    }
}
