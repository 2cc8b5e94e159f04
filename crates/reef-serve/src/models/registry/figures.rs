//! Figures of loaded models for metrics and listings.

use super::state::Registry;
use crate::models::loaded_model::LoadedModel;
use crate::models::placement::replicas::Replicas;
use crate::observe::metrics::{ClassLabels, EngineLabels, ModelLabels};
use crate::observe::triton::ModelFigures;
use std::collections::BTreeMap;

impl Registry {
    /// Bytes that are reserved of each device.
    pub(crate) fn device_memory(&self) -> impl Iterator<Item = u64> {
        self.placer.factories.iter().map(|factory| factory.budget.used())
    }

    /// Returns the devices of the version of this replica, as indices among the daemon's; empty if
    /// the daemon has only one.
    pub(crate) fn devices(&self, model: &LoadedModel) -> Vec<usize> {
        if model.node().is_alone {
            return Vec::new();
        }
        let loaded = self.loaded.read();
        let versions = loaded.get(&model.spec.name);
        let replicas = versions.and_then(|versions| versions.get(&model.spec.version));
        replicas.iter().flat_map(|all| all.each()).map(|one| one.node().index).collect()
    }

    /// Titles of the versions on each device.
    pub(crate) fn models_by_device(&self) -> BTreeMap<usize, Vec<String>> {
        let mut all: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let loaded = self.loaded.read();
        for served in loaded.values().flatten().flat_map(|(_, replicas)| replicas.each()) {
            all.entry(served.node().index).or_default().push(served.title().into());
        }
        all
    }

    /// Number of loaded versions.
    pub(crate) fn len(&self) -> usize {
        self.loaded.read().values().map(BTreeMap::len).sum()
    }

    /// Bytes that each version has reserved.
    pub(crate) fn memory(&self) -> Vec<(ModelLabels, u64)> {
        let loaded = self.loaded.read();
        let all = loaded.values().flatten();
        all.map(|(_, replicas)| (replicas.first().labels(), replicas.bytes())).collect()
    }

    /// Engine of each version; all its replicas have the same.
    pub(crate) fn engines(&self) -> Vec<EngineLabels> {
        let loaded = self.loaded.read();
        let engine = |replicas: &Replicas| {
            let ModelLabels { model, version } = replicas.first().labels();
            EngineLabels { model, version, engine: replicas.first().spec.engine() }
        };
        loaded.values().flatten().map(|(_, replicas)| engine(replicas)).collect()
    }

    /// Figures of each version, of all its replicas together.
    pub(crate) fn figures(&self) -> Vec<ModelFigures> {
        let loaded = self.loaded.read();
        let figures = |replicas: &Replicas| {
            let (model, each) = (replicas.first(), replicas.each()); // replicas share their numbers
            ModelFigures {
                model: model.spec.name.to_string(),
                version: model.spec.version,
                numbers: model.numbers(),
                batch: model.batch(),
                executions: model.executions(),
                waiting: each.iter().flat_map(|one| one.depths()).map(|(_, depth)| depth).sum(),
            }
        };
        loaded.values().flatten().map(|(_, replicas)| figures(replicas)).collect()
    }

    /// Waiting requests by model and class; a model with replicas has an entry for each.
    pub(crate) fn depths(&self) -> Vec<(ClassLabels, usize)> {
        let loaded = self.loaded.read();
        let replicas = loaded.values().flatten().flat_map(|(_, replicas)| replicas.each());
        replicas.flat_map(|served| served.depths()).collect()
    }
}
