//! The package that unites features.
//!
//! `cargo test -p A` gives A's dependencies the features that A wants, and compiles them again.
//! With all packages in view they have the features that any package wants. The package in
//! `xtask/unify/` wants all of them. It compiles nothing for itself: its program needs a feature
//! that is never set. Its manifest is made from those of the others.

use super::workspace::{has_target, list, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Name of the package.
pub(crate) const NAME: &str = "reef-unify";
/// Its manifest.
pub(super) const MANIFEST: &str = "xtask/unify/Cargo.toml";

const HEAD: &str = r#"# Made by `cargo xtask stale --update`, from the manifests of the other packages.
[package]
name = "reef-unify"
description = "Features of all packages of the workspace, for commands that build some of them"
publish = false
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true

[[bin]]
name = "reef-unify"
path = "main.rs"
required-features = ["never"]
test = false

"#;

/// Requirements of all packages for a dependency.
#[derive(Debug, Default)]
struct Requirement {
    version: String,
    path: Option<String>,
    has_defaults: bool,
    features: BTreeSet<String>,
}

impl Requirement {
    fn line(&self, name: &str) -> String {
        let mut line = format!("{name} = {{ ");
        match &self.path {
            Some(path) => line.push_str(&format!("path = {path:?}")),
            None => line.push_str(&format!("version = {:?}", self.version)),
        }
        if !self.has_defaults {
            line.push_str(", default-features = false");
        }
        if !self.features.is_empty() {
            line.push_str(&format!(", features = {:?}", self.features.iter().collect::<Vec<_>>()));
        }
        line.push_str(" }\n");
        line
    }
}

/// The manifest, as it must be.
pub(super) fn manifest(metadata: &Value) -> String {
    let all = || list(&metadata["packages"]).iter().filter(|one| one["name"] != NAME);
    let is_library =
        |package: &&Value| ["lib", "rlib"].iter().any(|kind| has_target(package, kind));
    let mut tables: [BTreeMap<String, Requirement>; 2] = Default::default();
    for package in all() {
        for dependency in list(&package["dependencies"]).iter().filter(|one| is_built(package, one))
        {
            let table = usize::from(dependency["kind"] == "build");
            add(&mut tables[table], dependency, package);
        }
    }
    let folder = |package: &Value| {
        let manifest = text(&package["manifest_path"]);
        let root = text(&metadata["workspace_root"]);
        let inside = manifest.trim_start_matches(&root).trim_matches('/');
        format!("../../{}", inside.trim_end_matches("Cargo.toml")).trim_end_matches('/').to_owned()
    };
    // With all packages in view each has its default features.
    for package in all().filter(is_library) {
        let name = text(&package["name"]);
        // Build programs may use it as well.
        if let Some(requirement) = tables[1].get_mut(&name) {
            requirement.path = Some(folder(package));
        }
        let requirement = tables[0].entry(name).or_default();
        (requirement.path, requirement.has_defaults) = (Some(folder(package)), true);
    }
    let mut manifest = HEAD.to_owned() + "[features]\nnever = []\n";
    for feature in ["cuda", "hip"] {
        let having = all().filter(is_library).filter(|one| one["features"].get(feature).is_some());
        let of: Vec<_> = having.map(|one| format!("{}/{feature}", text(&one["name"]))).collect();
        manifest.push_str(&format!("{feature} = {of:?}\n"));
    }
    for (title, table) in ["dependencies", "build-dependencies"].iter().zip(&tables) {
        manifest.push_str(&format!("\n[{title}]\n"));
        manifest.extend(table.iter().map(|(name, requirement)| requirement.line(name)));
    }
    manifest
}

/// Features of a package that are set by default, with those that they set.
fn defaults(package: &Value) -> BTreeSet<String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec!["default".to_owned()]);
    while let Some(feature) = next.pop() {
        next.extend(list(&package["features"][&feature]).iter().map(text));
        reached.insert(feature);
    }
    reached
}

/// Returns whether a dependency is there when the package has its default features. Of a library
/// this is known from the library itself.
fn is_built(package: &Value, dependency: &Value) -> bool {
    dependency["optional"] != true
        || defaults(package).contains(&format!("dep:{}", local(dependency)))
}

/// Name that the package has for a dependency.
fn local(dependency: &Value) -> String {
    dependency["rename"].as_str().map_or_else(|| text(&dependency["name"]), str::to_owned)
}

fn add(table: &mut BTreeMap<String, Requirement>, dependency: &Value, package: &Value) {
    let requirement = table.entry(text(&dependency["name"])).or_default();
    requirement.version = text(&dependency["req"]).trim_start_matches('^').to_owned();
    requirement.has_defaults |= dependency["uses_default_features"] == true;
    requirement.features.extend(list(&dependency["features"]).iter().map(text));
    // Features that the package's default ones set in it.
    let prefix = format!("{}/", local(dependency));
    let set = defaults(package);
    let set = set.iter().filter_map(|feature| feature.strip_prefix(&prefix));
    requirement.features.extend(set.map(str::to_owned));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn metadata() -> Value {
        let serde = |features: &[&str], optional: bool| {
            json!({
                "name": "serde", "req": "^1", "kind": null, "rename": null, "optional": optional,
                "uses_default_features": false, "features": features,
            })
        };
        let package = |name: &str, kind: &str, features: Value, dependencies: Value| {
            json!({
                "name": name, "manifest_path": format!("/w/{name}/Cargo.toml"), "features": features,
                "targets": [{ "kind": [kind], "name": name }], "dependencies": dependencies,
            })
        };
        json!({ "workspace_root": "/w", "packages": [
            package("a", "lib", json!({ "cuda": [] }), json!([serde(&["derive"], false)])),
            package("b", "lib", json!({}), json!([serde(&["unstable"], true)])),
            package(
                "c", "bin",
                json!({ "default": ["more"], "more": ["dep:serde", "serde/rc"] }),
                json!([serde(&["std"], true)]),
            ),
        ]})
    }

    #[test]
    fn features_of_all_packages_are_united() {
        let manifest = manifest(&metadata());
        let (_, dependencies) = manifest.split_once("[dependencies]\n").unwrap();
        let expected = "a = { path = \"../../a\" }\nb = { path = \"../../b\" }\n\
            serde = { version = \"1\", default-features = false, features = [\"derive\", \"rc\", \"std\"] }\n\
            \n[build-dependencies]\n";
        assert_eq!(dependencies, expected);
        assert!(manifest.contains("cuda = [\"a/cuda\"]\nhip = []\n"), "{manifest}");
    }

    #[test]
    fn library_for_build_programs_is_named_by_its_folder() {
        let of_a = json!({
            "name": "a", "req": "^0.1.0", "kind": "build", "rename": null, "optional": false,
            "uses_default_features": true, "features": [],
        });
        let package = |name: &str, dependencies: Value| {
            json!({
                "name": name, "manifest_path": format!("/w/{name}/Cargo.toml"), "features": {},
                "targets": [{ "kind": ["lib"], "name": name }], "dependencies": dependencies,
            })
        };
        let packages = [package("a", json!([])), package("b", json!([of_a]))];
        let manifest = manifest(&json!({ "workspace_root": "/w", "packages": packages }));
        let (_, built) = manifest.split_once("[build-dependencies]\n").unwrap();
        assert_eq!(built, "a = { path = \"../../a\" }\n");
    }
}
