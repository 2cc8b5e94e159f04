//! Packages of the workspace, as cargo says.

use crate::cargo::{cargo, output};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files and folders of the package whose folder is the workspace's.
const OF_ROOT: &[&str] =
    &["Cargo.toml", "src", "tests", "benches", "examples", "build.rs", "docs/rust", "README.md"];

/// A package of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    /// Folder, relative to the workspace.
    pub(crate) folder: PathBuf,
    /// Packages of the workspace that it uses.
    pub(crate) uses: BTreeSet<String>,
    /// Packages of the workspace that only its tests use.
    pub(crate) tests_use: BTreeSet<String>,
    pub(crate) has_library: bool,
    pub(crate) has_doctests: bool,
    /// Names of its test programs next to the unit tests.
    pub(crate) tests: Vec<String>,
}

/// Packages of the workspace, by name.
pub(crate) type Packages = BTreeMap<String, Package>;

/// Reads what `cargo metadata` says of the workspace's packages.
pub(crate) fn metadata() -> Result<Value, String> {
    let text = output(&mut cargo("metadata --no-deps --format-version 1 --offline"))?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

/// Elements of a list, none of anything else.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text, empty if it is none.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns whether a package has a target of this kind.
pub(crate) fn has_target(package: &Value, kind: &str) -> bool {
    targets(package, kind).next().is_some()
}

fn targets<'a>(package: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let of_kind = move |target: &&Value| list(&target["kind"]).iter().any(|one| one == kind);
    list(&package["targets"]).iter().filter(of_kind)
}

/// Packages of the workspace.
pub(crate) fn packages(metadata: &Value) -> Packages {
    let all = list(&metadata["packages"]);
    let names: BTreeSet<String> = all.iter().map(|package| text(&package["name"])).collect();
    let root = PathBuf::from(text(&metadata["workspace_root"]));
    all.iter().map(|one| (text(&one["name"]), package(one, &root, &names))).collect()
}

fn package(package: &Value, root: &Path, names: &BTreeSet<String>) -> Package {
    let uses = |is_wanted: fn(&Value) -> bool| {
        let wanted = list(&package["dependencies"]).iter().filter(|one| is_wanted(&one["kind"]));
        wanted.map(|one| text(&one["name"])).filter(|name| names.contains(name)).collect()
    };
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    let folder = manifest.parent().and_then(|folder| folder.strip_prefix(root).ok());
    Package {
        folder: folder.unwrap_or(Path::new("")).to_owned(),
        uses: uses(|kind| kind != "dev"),
        tests_use: uses(|kind| kind == "dev"),
        has_library: ["lib", "rlib", "cdylib"].iter().any(|kind| has_target(package, kind)),
        has_doctests: list(&package["targets"]).iter().any(|target| target["doctest"] == true),
        tests: targets(package, "test").map(|target| text(&target["name"])).collect(),
    }
}

/// The package whose folder is the deepest around the file. Documents and tools belong to none.
pub(crate) fn owner<'a>(packages: &'a Packages, file: &Path) -> Option<&'a str> {
    let around = packages.iter().filter(|(_, package)| file.starts_with(&package.folder));
    let (name, package) = around.max_by_key(|(_, package)| package.folder.components().count())?;
    let is_root = package.folder.as_os_str().is_empty();
    let is_of_root = OF_ROOT.iter().any(|path| file.starts_with(path));
    (!is_root || is_of_root).then_some(name)
}

/// Packages that a package and its tests use, directly or not, without itself.
pub(crate) fn used(packages: &Packages, name: &str) -> BTreeSet<String> {
    let package = &packages[name];
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = package.uses.iter().chain(&package.tests_use).collect();
    while let Some(used) = next.pop() {
        if used != name && reached.insert(used.clone()) {
            next.extend(&packages[used].uses);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(uses: &[&str], tests_use: &[&str]) -> Package {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Package {
            folder: "".into(),
            uses: names(uses),
            tests_use: names(tests_use),
            has_library: true,
            has_doctests: false,
            tests: Vec::new(),
        }
    }

    #[test]
    fn tests_of_used_packages_are_not_used() {
        let packages: Packages = [
            ("top", package(&["middle"], &["bench"])),
            ("middle", package(&["low"], &["fake", "top"])),
            ("low", package(&[], &[])),
            ("bench", package(&["low"], &[])),
            ("fake", package(&[], &[])),
        ]
        .map(|(name, package)| (name.to_owned(), package))
        .into();
        let of = |name| used(&packages, name).into_iter().collect::<Vec<_>>();
        assert_eq!(of("top"), ["bench", "low", "middle"]);
        assert_eq!(of("middle"), ["fake", "low", "top"], "a circle by its tests");
        assert_eq!(of("low"), [""; 0]);
    }
}
