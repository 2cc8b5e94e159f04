//! Lookup of versions, and of a replica for a request.

use super::state::Registry;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::models::loaded_model::LoadedModel;
use crate::models::placement::replicas::Replicas;
use crate::models::sequences::table::SequenceKey;
use crate::name::{self, ModelName};
use reef::did_you_mean;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A version in the repository's index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) name: ModelName,
    pub(crate) version: Option<u32>,
    pub(crate) is_ready: bool,
    /// Reason for which its devices do not serve it; empty if it is ready, or was not loaded.
    pub(crate) reason: String,
}

impl IndexEntry {
    /// Returns the protocol's name of its state.
    pub(crate) fn state(&self) -> &'static str {
        if self.is_ready { "READY" } else { "UNAVAILABLE" }
    }
}

/// Returns the error for a model of which no version is loaded, with the name that was meant.
pub(super) fn not_loaded<'a>(
    name: &ModelName,
    loaded: impl Iterator<Item = &'a ModelName>,
) -> Error {
    let meant = did_you_mean(name.as_str(), loaded.map(ModelName::as_str));
    Error::NotFound(format!("model {name} is not loaded{meant}"))
}

impl Registry {
    /// Returns a loaded version of a model, by default the newest: the replica with the least load.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` if its devices are lost.
    pub(crate) fn get(&self, name: &str, version: &str) -> Result<Arc<LoadedModel>> {
        self.get_on(name, version, None)
    }

    /// Returns a loaded version as [`get`](Self::get), but the replica on `device` if there is one.
    ///
    /// # Errors
    ///
    /// Errors of [`get`](Self::get).
    pub(crate) fn get_on(
        &self,
        name: &str,
        version: &str,
        device: Option<&Node>,
    ) -> Result<Arc<LoadedModel>> {
        let (name, version) = (ModelName::new(name)?, name::version(version)?);
        let loaded = self.loaded.read();
        let versions = loaded.get(&name);
        let found = versions.and_then(|versions| match version {
            Some(version) => versions.get(&version),
            None => versions.values().next_back(),
        });
        let reason = if found.is_none() { self.unavailable.reason(&name, version) } else { None };
        if let Some(why) = reason {
            return Err(why);
        }
        let near = |replicas: &Replicas| device.and_then(|device| replicas.on(device)).cloned();
        let replica = |all: &Arc<Replicas>| near(all).unwrap_or_else(|| all.next().clone());
        found.map(replica).ok_or_else(|| match version.filter(|_| versions.is_some()) {
            Some(version) => {
                Error::NotFound(format!("model {name} version {version} is not loaded"))
            }
            None => not_loaded(&name, loaded.keys()),
        })
    }

    /// Returns the device of the replica that has the state of a sequence, if any.
    pub(crate) fn device_with(
        &self,
        name: &str,
        version: &str,
        key: &SequenceKey,
    ) -> Option<Arc<Node>> {
        let replicas = self.select(name, version).ok()?;
        let has = |replica: &&Arc<LoadedModel>| {
            replica.sequences.as_ref().is_some_and(|sequences| sequences.has(key))
        };
        let mut newest_first = replicas.iter().rev().flat_map(|replicas| replicas.each());
        newest_first.find(has).map(|replica| replica.node().clone())
    }

    /// Returns all loaded versions; only those of `name` and `version` unless they are empty.
    ///
    /// # Errors
    ///
    /// `NotFound` if a name is given that is not loaded.
    pub(crate) fn select(&self, name: &str, version: &str) -> Result<Vec<Arc<Replicas>>> {
        let one = match (name, version) {
            ("", "") => None,
            _ => Some(self.get(name, version)?.spec.version),
        };
        let is_selected = |number: &u32| version.is_empty() || one == Some(*number);
        let loaded = self.loaded.read();
        let chosen = loaded.iter().filter(|(n, _)| name.is_empty() || n.as_str() == name);
        let chosen = chosen.flat_map(|(_, versions)| versions);
        Ok(chosen.filter(|(n, _)| is_selected(n)).map(|(_, replicas)| replicas.clone()).collect())
    }

    pub(crate) fn versions(&self, name: &ModelName) -> Vec<u32> {
        let loaded = self.loaded.read();
        loaded.get(name).into_iter().flat_map(|versions| versions.keys().copied()).collect()
    }

    /// Returns all versions that are loaded or could be.
    ///
    /// # Errors
    ///
    /// `Failed` if the repository cannot be read.
    pub(crate) fn index(&self) -> Result<Vec<IndexEntry>> {
        let builtin = self.repository.builtin().into_iter().map(|name| (name, vec![1]));
        let listed = self.repository.list()?.into_iter().map(|l| (l.name, l.versions));
        let mut all: BTreeMap<ModelName, Vec<u32>> = builtin.chain(listed).collect();
        for (name, versions) in &*self.loaded.read() {
            let known = all.entry(name.clone()).or_default();
            known.extend(versions.keys());
            known.sort_unstable();
            known.dedup();
        }
        let indexed = |(name, versions): (ModelName, Vec<u32>)| {
            let ready = self.versions(&name);
            let versions: Vec<_> = if versions.is_empty() {
                vec![None]
            } else {
                versions.into_iter().map(Some).collect()
            };
            versions.into_iter().map(move |version| {
                let is_ready = version.is_some_and(|version| ready.contains(&version));
                let why = self.unavailable.reason(&name, version).filter(|_| !is_ready);
                let reason = why.map(|why| why.text().to_owned()).unwrap_or_default();
                IndexEntry { name: name.clone(), version, is_ready, reason }
            })
        };
        Ok(all.into_iter().flat_map(indexed).collect())
    }
}
