//! What one version of a model is made of.

use super::config::upload::Upload;
use super::declaration::{Declaration, Shapes};
use super::description::{Description, Instances, Placing};
use super::source::ModelSource;
use crate::class::Class;
use crate::error::{Error, Result};
use crate::name::ModelName;
use crate::requests::batch::Batching;
use reef::models::profile::Latencies;
use reef::models::{Budget, Model};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Seed of the weights of networks that are built by name, as in the other commands.
const SEED: u64 = 2022;

/// What one version of a model is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelSpec {
    pub(crate) name: ModelName,
    pub(crate) version: u32,
    pub(crate) source: ModelSource,
    /// For which networks are made ahead.
    pub(crate) shapes: Vec<BTreeMap<String, Vec<usize>>>,
    /// How requests of each class run together, as [`Class::EACH`](crate::class::Class::EACH).
    pub(crate) batching: [Option<Batching>; 2],
    size: Option<usize>,
    batch: Option<usize>,
    /// Latencies of its kernels, if they lie beside it.
    profile: Option<PathBuf>,
    /// Whether kernels are measured if no latencies are there.
    pub(crate) measure: bool,
    pub(crate) instances: Instances,
    /// Devices that each have as many.
    pub(crate) placing: Placing,
    /// Files that came with a load, which are read again for each shape.
    pub(super) upload: Option<Arc<Upload>>,
}

impl ModelSpec {
    /// Version `version` of a model whose files lie in `place`.
    ///
    /// # Errors
    ///
    /// What is wrong with the place, with the model.
    pub(super) fn new(
        description: &Description,
        name: &ModelName,
        version: u32,
        place: &Path,
    ) -> Result<Self> {
        let source =
            ModelSource::find(place, description).map_err(|error| of(name, version, error))?;
        let profile = Some(place.join("profile.json")).filter(|profile| profile.is_file());
        let Description { size, batch, measure, instances, .. } = *description;
        let (name, shapes) = (name.clone(), description.shapes.clone());
        let (batching, placing) = (description.batching(), description.placing());
        Ok(Self {
            name,
            version,
            source,
            shapes,
            batching,
            size,
            batch,
            profile,
            measure,
            instances,
            placing,
            upload: None,
        })
    }

    /// A network by name with made-up weights.
    pub(super) fn builtin(name: &ModelName, description: &Description) -> Self {
        Self {
            name: name.clone(),
            version: 1,
            source: ModelSource::Seeded { network: name.as_str().into(), seed: SEED },
            shapes: Vec::new(),
            batching: description.batching(),
            size: None,
            batch: None,
            profile: None,
            measure: false,
            instances: description.instances,
            placing: description.placing(),
            upload: None,
        }
    }

    /// How requests run together, if any do: it is the same for each class that does.
    pub(crate) fn batching(&self) -> Option<Batching> {
        self.batching.iter().flatten().next().copied()
    }

    /// Whether real-time requests run together.
    pub(crate) fn batches_rt(&self) -> bool {
        self.batching[Class::RealTime as usize].is_some()
    }

    /// Most rows that run together.
    pub(crate) fn max_batch(&self) -> usize {
        self.batching().map_or(1, |batching| batching.max)
    }

    /// Whether it brings kernels, which are native code of whoever wrote them.
    pub(super) fn brings_kernels(&self) -> bool {
        matches!(self.source, ModelSource::Program(_))
    }

    /// What metadata calls it: weights that are made up are no model that was trained.
    pub(crate) fn platform(&self) -> &'static str {
        if self.is_made_up() { "reef_made_up_weights" } else { "reef" }
    }

    /// Whether its weights come from a seed.
    pub(crate) fn is_made_up(&self) -> bool {
        matches!(self.source, ModelSource::Seeded { .. })
    }

    /// What its source says about its tensors, and what the description fixes of that.
    ///
    /// # Errors
    ///
    /// What is wrong, with the model and the file; `Exhausted`.
    pub(crate) fn declared(&self, budget: &Budget) -> Result<Option<Declaration>> {
        let declared = self.source.declared(self.size, self.max_batch() > 1, budget);
        let mut declared = declared.map_err(|error| of(&self.name, self.version, error))?;
        if let Some(declaration) = &mut declared {
            declaration.fix(
                self.source.is_text().then_some(self.size).flatten(),
                self.size,
                self.batch,
            );
        }
        Ok(declared)
    }

    /// Reads it for these shapes, with memory of `budget`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub(crate) fn open_shaped(
        &self,
        declaration: &Declaration,
        shapes: &Shapes,
        budget: &Budget,
    ) -> Result<Model> {
        let read = self.source.open_shaped(declaration, shapes, self.size, budget);
        let read = read.and_then(|model| self.with_profile(model));
        read.map_err(|error| of(&self.name, self.version, error))
    }

    /// The model with latencies that lie next to it.
    fn with_profile(&self, model: Model) -> Result<Model> {
        match &self.profile {
            Some(profile) if model.kernels().is_none() => {
                Ok(model.with_latencies(Some(Latencies::load(profile)?)))
            }
            _ => Ok(model),
        }
    }

    /// Reads everything, with memory of `budget`.
    ///
    /// # Errors
    ///
    /// What is wrong, with the model and the file; `Exhausted`.
    pub(crate) fn open(&self, budget: &Budget) -> Result<Model> {
        let read = self.source.open(self.size, self.batch, budget);
        let read = read.and_then(|model| self.with_profile(model));
        read.map_err(|error| of(&self.name, self.version, error))
    }
}

/// The error, with whose it is.
fn of(name: &ModelName, version: u32, error: Error) -> Error {
    error.map(|text| format!("model {name}/{version}: {text}"))
}
