//! Packages and their dependencies, as cargo resolves them for a release.

use crate::cargo::{cargo, output};
use serde_json::Value;
use std::collections::BTreeMap;

/// Features of what is released.
const FEATURES: &str = "reef-cli/cuda,reef-cli/hip,reef-cli/remote,reef-python/cuda,reef-python/hip,\
                        reef-capi/cuda,reef-capi/hip";
/// Platform of what is released.
pub(crate) const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Answer of `cargo metadata`.
pub(crate) struct Workspace(Value);

impl Workspace {
    /// Asks cargo, for the features and the platform of a release.
    ///
    /// # Errors
    ///
    /// Cargo fails, for example because `Cargo.lock` does not fit the manifests.
    pub(crate) fn read() -> Result<Self, String> {
        let mut command = cargo("metadata --format-version 1 --locked");
        command.args(["--features", FEATURES, "--filter-platform", PLATFORM]);
        serde_json::from_str(&output(&mut command)?).map(Self).map_err(|e| e.to_string())
    }

    #[cfg(test)]
    pub(crate) fn of(metadata: Value) -> Self {
        Self(metadata)
    }

    /// All packages, by id.
    pub(crate) fn packages(&self) -> BTreeMap<&str, &Value> {
        let packages = list(&self.0["packages"]);
        packages.filter_map(|package| Some((package["id"].as_str()?, package))).collect()
    }

    /// The workspace's own packages.
    pub(crate) fn members(&self) -> Vec<&Value> {
        let packages = self.packages();
        list(&self.0["workspace_members"])
            .filter_map(|id| packages.get(id.as_str()?).copied())
            .collect()
    }

    /// Ids of the packages that one is built from: no dependency of tests alone.
    pub(crate) fn dependencies(&self, id: &str) -> Vec<&str> {
        let is_built = |dependency: &&Value| {
            list(&dependency["dep_kinds"]).any(|kind| kind["kind"].as_str() != Some("dev"))
        };
        list(&self.0["resolve"]["nodes"])
            .filter(|node| node["id"].as_str() == Some(id))
            .flat_map(|node| list(&node["deps"]))
            .filter(is_built)
            .filter_map(|dependency| dependency["pkg"].as_str())
            .collect()
    }
}

/// Entries of a list; none of what is not a list.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
