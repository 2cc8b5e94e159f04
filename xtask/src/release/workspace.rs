//! The workspace's own packages, as their manifests describe them.

use crate::cargo::{cargo, output};
use serde_json::Value;

/// Answer of `cargo metadata`.
pub(crate) struct Workspace(Value);

impl Workspace {
    /// Asks cargo.
    ///
    /// # Errors
    ///
    /// Cargo fails, for example because it cannot read a manifest.
    pub(crate) fn read() -> Result<Self, String> {
        let text = output(&mut cargo("metadata --format-version 1 --no-deps"))?;
        serde_json::from_str(&text).map(Self).map_err(|e| e.to_string())
    }

    #[cfg(test)]
    pub(crate) fn of(metadata: Value) -> Self {
        Self(metadata)
    }

    /// All packages.
    pub(crate) fn members(&self) -> Vec<&Value> {
        list(&self.0["packages"]).collect()
    }
}

/// Entries of a list; none of what is not a list.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
