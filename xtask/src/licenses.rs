//! Licences and sources of all packages that a build of the workspace can take, by the rules of
//! `.cargo/deny.toml`.
//!
//! `cargo deny check licenses sources` says the same: docs/reference/dependencies.md says why the
//! gate doesn't install it.

use crate::cargo::{cargo, output};
use serde_json::Value;
use spdx::{Expression, ParseMode};
use std::collections::BTreeSet;

/// File of the rules, at one of the paths where `cargo deny` looks for it.
const RULES: &str = ".cargo/deny.toml";
/// The one place that packages may come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Prints what breaks the rules; whether nothing does.
pub(crate) fn run() -> Result<bool, String> {
    let rules = std::fs::read_to_string(RULES).map_err(|e| format!("{RULES}: {e}"))?;
    let packages = packages()?;
    let broken = broken(&packages, &allowed(&rules)?);
    for line in &broken {
        eprintln!("{line}");
    }
    println!("{} packages, {} break the rules", packages.len(), broken.len());
    Ok(broken.is_empty())
}

/// All that `cargo metadata` knows of.
fn packages() -> Result<Vec<Value>, String> {
    let text = output(&mut cargo("metadata --format-version 1 --all-features --locked"))?;
    let mut metadata: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        other => Err(format!("cargo metadata has no packages but {other}")),
    }
}

/// `allow` of the section `licenses`.
fn allowed(rules: &str) -> Result<BTreeSet<String>, String> {
    let rules: toml::Table = rules.parse().map_err(|e| format!("{RULES}: {e}"))?;
    let list = rules.get("licenses").and_then(|licenses| licenses.get("allow")?.as_array());
    let list = list.ok_or_else(|| format!("{RULES}: no list `allow` in `licenses`"))?;
    Ok(list.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect())
}

/// A line for each package that breaks a rule.
fn broken(packages: &[Value], allowed: &BTreeSet<String>) -> Vec<String> {
    let line = |package: &Value| {
        let why = source(package).and_then(|()| license(package, allowed)).err()?;
        Some(format!("{} {}: {why}", package["name"], package["version"]))
    };
    packages.iter().filter_map(line).collect()
}

fn source(package: &Value) -> Result<(), String> {
    match package["source"].as_str() {
        None | Some(REGISTRY) => Ok(()), // one of ours has none
        Some(other) => Err(format!("it comes from {other}")),
    }
}

fn license(package: &Value, allowed: &BTreeSet<String>) -> Result<(), String> {
    let text = package["license"].as_str().ok_or("it names no licence")?;
    let expression = Expression::parse_mode(text, ParseMode::LAX).map_err(|e| e.to_string())?;
    if expression.evaluate(|license| allowed.contains(&license.to_string())) {
        return Ok(());
    }
    Err(format!("{text} is not among those that {RULES} allows"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn license_that_is_not_allowed_is_a_fault() {
        let rules = "[licenses]\nallow = [\"MIT\", \"Apache-2.0 WITH LLVM-exception\"]";
        let allowed = allowed(rules).unwrap();
        let package = |name: &str, license: Value, source: Value| json!({ "name": name, "version": "1.0.0", "license": license, "source": source });
        let packages = [
            package("ours", json!("MIT"), Value::Null),
            package("old", json!("MIT/GPL-3.0"), json!(REGISTRY)),
            package("llvm", json!("Apache-2.0 WITH LLVM-exception"), json!(REGISTRY)),
            package("apache", json!("Apache-2.0"), json!(REGISTRY)),
            package("both", json!("MIT AND GPL-3.0-only"), json!(REGISTRY)),
            package("none", Value::Null, json!(REGISTRY)),
            package("git", json!("MIT"), json!("git+https://example.org/git")),
        ];
        let lines = broken(&packages, &allowed);
        let names: Vec<_> = lines.iter().map(|line| line.split('"').nth(1).unwrap()).collect();
        assert_eq!(names, ["apache", "both", "none", "git"], "{lines:?}");
    }
}
