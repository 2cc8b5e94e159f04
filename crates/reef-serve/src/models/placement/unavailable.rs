//! Models whose devices are all lost.

use crate::error::Error;
use crate::models::model_spec::ModelSpec;
use crate::name::ModelName;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Versions that were loaded and whose devices are all lost, with the reason.
#[derive(Debug, Default)]
pub(crate) struct UnavailableModels(Mutex<BTreeMap<ModelName, BTreeMap<u32, Error>>>);

impl UnavailableModels {
    /// Notes the reason for which a version is unavailable.
    pub(crate) fn note(&self, spec: &ModelSpec, why: String) {
        let mut models = self.0.lock();
        let versions = models.entry(spec.name.clone()).or_default();
        versions.insert(spec.version, Error::Unavailable(why));
    }

    /// Forgets a version that is available again.
    pub(crate) fn forget_version(&self, spec: &ModelSpec) {
        let mut models = self.0.lock();
        let Some(versions) = models.get_mut(&spec.name) else { return };
        versions.remove(&spec.version);
        if versions.is_empty() {
            models.remove(&spec.name);
        }
    }

    /// Forgets all versions. Returns false if there are none.
    pub(crate) fn forget(&self, name: &ModelName) -> bool {
        self.0.lock().remove(name).is_some()
    }

    /// Returns the reason for this version, or for the newest.
    pub(crate) fn reason(&self, name: &ModelName, version: Option<u32>) -> Option<Error> {
        let models = self.0.lock();
        let versions = models.get(name)?;
        match version {
            Some(version) => versions.get(&version).cloned(),
            None => versions.values().next_back().cloned(),
        }
    }

    /// Returns the models with such versions.
    pub(crate) fn names(&self) -> Vec<ModelName> {
        self.0.lock().keys().cloned().collect()
    }
}
