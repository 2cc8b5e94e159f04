//! Which versions there are, and which replica of one a request takes.

use super::state::Registry;
use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::models::loaded_model::LoadedModel;
use crate::models::placement::replicas::Replicas;
use crate::name::{self, ModelName};
use crate::suggest::did_you_mean;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A version in the repository's index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Indexed {
    pub(crate) name: ModelName,
    pub(crate) version: Option<u32>,
    pub(crate) ready: bool,
}

impl Indexed {
    /// The protocol's word for it.
    pub(crate) fn state(&self) -> &'static str {
        if self.ready { "READY" } else { "UNAVAILABLE" }
    }
}

impl Registry {
    /// A loaded version of a model, the newest if none is named: the replica with the least to do.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` if its device is lost and no other has it.
    pub(crate) fn get(&self, name: &str, version: &str) -> Result<Arc<LoadedModel>> {
        self.get_near(name, version, None)
    }

    /// The same, but the replica on `device`, if it has one.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub(crate) fn get_near(
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
        let away = if found.is_none() { self.away.why(&name, version) } else { None };
        if let Some(why) = away {
            return Err(why);
        }
        let version = version.map(|v| format!(" version {v}")).unwrap_or_default();
        let near = |replicas: &Replicas| device.and_then(|device| replicas.on(device)).cloned();
        let replica = |all: &Arc<Replicas>| near(all).unwrap_or_else(|| all.next().clone());
        found.map(replica).ok_or_else(|| {
            let meant = match versions {
                Some(_) => String::new(),
                None => did_you_mean(&name, loaded.keys().cloned()),
            };
            Error::NotFound(format!("model {name}{version} is not loaded{meant}"))
        })
    }

    /// All loaded versions; of `name` and `version` unless they are empty.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is a name that is not loaded.
    pub(crate) fn select(&self, name: &str, version: &str) -> Result<Vec<Arc<Replicas>>> {
        let one = match (name, version) {
            ("", "") => None,
            _ => Some(self.get(name, version)?.spec.version),
        };
        let is_asked = |number: &u32| version.is_empty() || one == Some(*number);
        let loaded = self.loaded.read();
        let chosen = loaded.iter().filter(|(n, _)| name.is_empty() || n.as_str() == name);
        let chosen = chosen.flat_map(|(_, versions)| versions);
        Ok(chosen.filter(|(n, _)| is_asked(n)).map(|(_, replicas)| replicas.clone()).collect())
    }

    /// Versions of a model that are loaded.
    pub(crate) fn versions(&self, name: &ModelName) -> Vec<u32> {
        let loaded = self.loaded.read();
        loaded.get(name).into_iter().flat_map(|versions| versions.keys().copied()).collect()
    }

    /// What is loaded and what could be.
    ///
    /// # Errors
    ///
    /// `Failed` if the repository can't be read.
    pub(crate) fn index(&self) -> Result<Vec<Indexed>> {
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
            let versions: Vec<_> = match versions.is_empty() {
                true => vec![None],
                false => versions.into_iter().map(Some).collect(),
            };
            versions.into_iter().map(move |version| Indexed {
                name: name.clone(),
                version,
                ready: version.is_some_and(|version| ready.contains(&version)),
            })
        };
        Ok(all.into_iter().flat_map(indexed).collect())
    }
}
