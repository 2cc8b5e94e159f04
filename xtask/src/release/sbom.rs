//! Bill of materials in the form of CycloneDX 1.5: all packages that what is released is built
//! from, with versions, licences and checksums.

use super::workspace::{Workspace, list};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Packages whose programs and libraries are released as binaries.
pub(crate) const RELEASED: &[&str] = &[
    "reef-capi",
    "reef-cli",
    "reef-cudareef",
    "reef-cudart",
    "reef-nvml-shim",
    "reef-python",
    "reef-remote-cuda",
    "reef-shim",
];

/// Makes the bill, with the checksums that `Cargo.lock` has.
///
/// # Errors
///
/// A released package is not in the workspace, `Cargo.lock` cannot be read, or a package from the
/// registry has no checksum in it.
pub(crate) fn bill(workspace: &Workspace, lock: &str, version: &str) -> Result<Value, String> {
    let sums = checksums(lock)?;
    let packages = workspace.packages();
    let mut roots = Vec::new();
    for name in RELEASED {
        let of = workspace.members().into_iter().find(|package| package["name"] == **name);
        let id = of.and_then(|package| package["id"].as_str());
        roots.push(id.ok_or_else(|| format!("{name}: must be a package of the workspace"))?);
    }
    let ids = reached(workspace, &roots);
    let mut components = Vec::new();
    for id in &ids {
        let package = packages.get(id).ok_or_else(|| format!("no package {id}"))?;
        components.push(component(package, &sums)?);
    }
    let reference = |id: &str| packages.get(id).map(|package| purl(package));
    let mut dependencies: Vec<Value> = ids
        .iter()
        .map(|id| {
            let on: BTreeSet<_> =
                workspace.dependencies(id).into_iter().filter_map(reference).collect();
            json!({ "ref": reference(id), "dependsOn": on })
        })
        .collect();
    let all = format!("pkg:generic/reef@{version}");
    let on: BTreeSet<_> = roots.iter().filter_map(|id| reference(id)).collect();
    dependencies.push(json!({ "ref": all, "dependsOn": on }));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": { "type": "application", "bom-ref": all, "name": "reef", "version": version, "purl": all },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Ids of packages and of all that they are built from.
fn reached<'a>(workspace: &'a Workspace, roots: &[&'a str]) -> BTreeSet<&'a str> {
    let (mut found, mut open) = (BTreeSet::new(), roots.to_vec());
    while let Some(id) = open.pop() {
        if found.insert(id) {
            open.extend(workspace.dependencies(id));
        }
    }
    found
}

fn component(package: &Value, sums: &BTreeMap<String, String>) -> Result<Value, String> {
    let reference = purl(package);
    let mut component = json!({
        "type": "library",
        "bom-ref": reference,
        "name": package["name"],
        "version": package["version"],
        "purl": reference,
    });
    if let Some(license) = package["license"].as_str() {
        // `MIT/Apache-2.0` is the old form of `OR`.
        let expression = license.replace('/', " OR ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    if package["source"].is_string() {
        let key = key(package);
        let sum =
            sums.get(&key).ok_or_else(|| format!("Cargo.lock: must have a checksum of {key}"))?;
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    Ok(component)
}

fn text<'a>(package: &'a Value, of: &str) -> &'a str {
    package[of].as_str().unwrap_or_default()
}

fn key(package: &Value) -> String {
    format!("{} {}", text(package, "name"), text(package, "version"))
}

fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version"))
}

/// Checksums of packages from the registry, by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<String, String>, String> {
    let lock: toml::Table = lock.parse().map_err(|e| format!("Cargo.lock: {e}"))?;
    let lock = serde_json::to_value(lock).map_err(|e| e.to_string())?;
    let sums = list(&lock["package"]);
    Ok(sums.filter_map(|it| Some((key(it), it["checksum"].as_str()?.to_owned()))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace of what is released, the first of which uses a package of the registry, and for
    /// its tests another one.
    fn workspace() -> Workspace {
        let own =
            RELEASED.iter().map(|name| json!({ "id": name, "name": name, "version": "0.1.0" }));
        let registry = ["used", "tested"].map(|name| {
            json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": "registry" })
        });
        let packages: Vec<_> = own.chain(registry).collect();
        let kinds = |kind: Value| json!([{ "kind": kind }]);
        Workspace::of(json!({
            "packages": packages,
            "workspace_members": RELEASED,
            "resolve": { "nodes": [{ "id": RELEASED[0], "deps": [
                { "pkg": "used", "dep_kinds": kinds(Value::Null) },
                { "pkg": "tested", "dep_kinds": kinds(json!("dev")) },
            ] }] },
        }))
    }

    #[test]
    fn bill_has_what_is_built_in_with_checksum_and_licence() {
        let lock = "[[package]]\nname = \"used\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let bill = bill(&workspace(), lock, "0.1.0").unwrap();
        let names: Vec<_> = list(&bill["components"]).map(|it| text(it, "name")).collect();
        assert_eq!(names.len(), RELEASED.len() + 1, "{names:?}");
        assert!(!names.contains(&"tested"), "{names:?}");
        let used = list(&bill["components"]).find(|it| it["name"] == "used").unwrap();
        assert_eq!(used["hashes"][0]["content"], "abc");
        assert_eq!(used["licenses"][0]["expression"], "MIT OR Apache-2.0");
        let first = format!("pkg:cargo/{}@0.1.0", RELEASED[0]);
        let on = list(&bill["dependencies"]).find(|it| it["ref"] == *first).unwrap();
        assert_eq!(on["dependsOn"], json!(["pkg:cargo/used@1.0.0"]));
    }

    #[test]
    fn package_without_a_checksum_is_a_fault() {
        let fault = bill(&workspace(), "", "0.1.0").unwrap_err();
        assert_eq!(fault, "Cargo.lock: must have a checksum of used 1.0.0");
    }
}
