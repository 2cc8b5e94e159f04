//! Models that no device has any more.

use crate::error::Error;
use crate::models::model_spec::ModelSpec;
use crate::name::ModelName;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Versions that were loaded and that no device has any more, with the reason.
#[derive(Debug, Default)]
pub(crate) struct Away(Mutex<BTreeMap<ModelName, BTreeMap<u32, Error>>>);

impl Away {
    /// Notes why a version isn't there.
    pub(crate) fn note(&self, spec: &ModelSpec, why: String) {
        let mut away = self.0.lock();
        let versions = away.entry(spec.name.clone()).or_default();
        versions.insert(spec.version, Error::Unavailable(why));
    }

    /// It is there again.
    pub(crate) fn forget_version(&self, spec: &ModelSpec) {
        let mut away = self.0.lock();
        let Some(versions) = away.get_mut(&spec.name) else { return };
        versions.remove(&spec.version);
        if versions.is_empty() {
            away.remove(&spec.name);
        }
    }

    /// Forgets all versions. False if there are none.
    pub(crate) fn forget(&self, name: &ModelName) -> bool {
        self.0.lock().remove(name).is_some()
    }

    /// Why this version isn't there, or the newest.
    pub(crate) fn why(&self, name: &ModelName, version: Option<u32>) -> Option<Error> {
        let away = self.0.lock();
        let versions = away.get(name)?;
        match version {
            Some(version) => versions.get(&version).cloned(),
            None => versions.values().next_back().cloned(),
        }
    }

    /// Models with such versions.
    pub(crate) fn names(&self) -> Vec<ModelName> {
        self.0.lock().keys().cloned().collect()
    }
}
