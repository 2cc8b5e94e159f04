//! Packages that are published: what a registry shows of them, and the order in which it takes
//! them, each after those that it depends on.

use super::workspace::{Workspace, list};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Keys of a manifest that a registry shows.
const SHOWN: [&str; 5] = ["description", "repository", "keywords", "categories", "readme"];

fn is_published(package: &Value) -> bool {
    package["publish"].as_array().is_none_or(|to| !to.is_empty())
}

/// Checks that each published package has all that a registry shows.
///
/// # Errors
///
/// The first package that lacks some of it, with the keys.
pub(crate) fn check_shown(workspace: &Workspace) -> Result<(), String> {
    let is_missing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    for package in workspace.members().into_iter().filter(|package| is_published(package)) {
        let missing: Vec<&str> =
            SHOWN.into_iter().filter(|key| is_missing(&package[*key])).collect();
        if !missing.is_empty() {
            let name = package["name"].as_str().unwrap_or_default();
            return Err(format!("{name}: its manifest must have {}", missing.join(", ")));
        }
    }
    Ok(())
}

/// Names of the packages that are published, in that order.
///
/// # Errors
///
/// A published package depends on one that is not published, or some depend on each other.
pub(crate) fn published(workspace: &Workspace) -> Result<Vec<String>, String> {
    let published: BTreeMap<&str, &Value> = workspace
        .members()
        .into_iter()
        .filter(|package| is_published(package))
        .filter_map(|package| Some((package["name"].as_str()?, package)))
        .collect();
    let own: BTreeSet<&str> =
        workspace.members().iter().filter_map(|package| package["name"].as_str()).collect();
    let mut left: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (&name, package) in &published {
        let needed: BTreeSet<&str> =
            needed(package).filter(|other| own.contains(other) && *other != name).collect();
        if let Some(other) = needed.iter().find(|other| !published.contains_key(*other)) {
            return Err(format!("{name}: depends on {other}, which is not published"));
        }
        left.insert(name, needed);
    }
    sorted(left)
}

/// Names that a registry looks up: those with a version. Packages that tests alone need by path
/// are left out of a package.
fn needed(package: &Value) -> impl Iterator<Item = &str> {
    list(&package["dependencies"])
        .filter(|dependency| {
            dependency["kind"].as_str() != Some("dev") || dependency["req"].as_str() != Some("*")
        })
        .filter_map(|dependency| dependency["name"].as_str())
}

fn sorted(mut left: BTreeMap<&str, BTreeSet<&str>>) -> Result<Vec<String>, String> {
    let mut order = Vec::new();
    while !left.is_empty() {
        let ready = left.iter().find(|(_, needed)| needed.is_empty()).map(|(name, _)| *name);
        let Some(ready) = ready else {
            let names: Vec<_> = left.keys().copied().collect();
            return Err(format!("packages depend on each other: {}", names.join(", ")));
        };
        left.remove(ready);
        left.values_mut().for_each(|needed| {
            needed.remove(ready);
        });
        order.push(ready.to_owned());
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, publish: Value, needs: &[(&str, Value, &str)]) -> Value {
        let needs: Vec<_> = needs
            .iter()
            .map(|(name, kind, req)| json!({ "name": name, "kind": kind, "req": req }))
            .collect();
        json!({ "name": name, "publish": publish, "dependencies": needs })
    }

    fn workspace(packages: &[Value]) -> Workspace {
        Workspace::of(json!({ "packages": packages }))
    }

    fn order_of(packages: &[Value]) -> Result<Vec<String>, String> {
        published(&workspace(packages))
    }

    #[test]
    fn package_comes_after_those_it_depends_on() {
        let order = order_of(&[
            package("a", Value::Null, &[("c", Value::Null, "^1"), ("serde", Value::Null, "^1")]),
            package("b", Value::Null, &[]),
            package("c", Value::Null, &[("b", json!("build"), "^1")]),
            package("tool", json!([]), &[("a", Value::Null, "^1")]),
        ]);
        assert_eq!(order.unwrap(), ["b", "c", "a"]);
    }

    #[test]
    fn dependency_of_tests_by_path_does_not_count() {
        let circle = |req| {
            order_of(&[
                package("a", Value::Null, &[("b", json!("dev"), req)]),
                package("b", Value::Null, &[("a", Value::Null, "^1")]),
            ])
        };
        assert_eq!(circle("*").unwrap(), ["a", "b"]);
        assert_eq!(circle("^1").unwrap_err(), "packages depend on each other: a, b");
    }

    #[test]
    fn dependency_that_is_not_published_is_a_fault() {
        let order = order_of(&[
            package("a", Value::Null, &[("tool", Value::Null, "^1")]),
            package("tool", json!([]), &[]),
        ]);
        assert_eq!(order.unwrap_err(), "a: depends on tool, which is not published");
    }

    #[test]
    fn published_package_without_keywords_is_a_fault() {
        let mut described = package("a", Value::Null, &[]);
        for key in ["description", "repository", "readme"] {
            described[key] = json!("text");
        }
        (described["keywords"], described["categories"]) = (json!(["gpu"]), json!(["science"]));
        let tool = package("tool", json!([]), &[]);
        assert_eq!(check_shown(&workspace(&[described.clone(), tool.clone()])), Ok(()));
        (described["keywords"], described["readme"]) = (json!([]), Value::Null);
        let fault = check_shown(&workspace(&[tool, described])).unwrap_err();
        assert_eq!(fault, "a: its manifest must have keywords, readme");
    }
}
