//! What one version of a model is made of.

use super::origin::Origin;
use crate::name::ModelName;
use crate::{Error, Result};
use reef::models::Opened;
use reef::models::profile::Latencies;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Seed of the weights of networks that are built by name, as in the other commands.
const SEED: u64 = 2022;

/// A `model.toml`. An unknown key is an error.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Description {
    /// Which network it is, one of those that can be built; none if the files say.
    pub(super) network: Option<String>,
    /// Rows and columns of the picture; default: the network's own.
    size: Option<usize>,
    /// Pictures at a time, the first dimension of the tensors; default: the network's own, or 1.
    batch: Option<usize>,
    /// Makes weights up instead of reading them.
    pub(super) seed: Option<u64>,
    /// Versions that are loaded when none is named; default: the newest.
    versions: Option<Vec<u32>>,
    /// Instances for requests of each class of the standard protocol.
    instances: Instances,
    /// Measures the kernels when it is loaded, if there is no profile.
    measure: bool,
}

/// How many requests of each class run at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Instances {
    pub(crate) rt: usize,
    pub(crate) be: usize,
}

impl Default for Instances {
    fn default() -> Self {
        Self { rt: 1, be: 1 }
    }
}

/// Most instances of one class.
const MOST_INSTANCES: usize = 16;

/// What one version of a model is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recipe {
    pub(crate) name: ModelName,
    pub(crate) version: u32,
    pub(crate) origin: Origin,
    size: Option<usize>,
    batch: Option<usize>,
    /// Latencies of its kernels, if they lie beside it.
    profile: Option<PathBuf>,
    /// Whether kernels are measured if no latencies are there.
    pub(crate) measure: bool,
    pub(crate) instances: Instances,
}

impl Description {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let wrong = |e: &dyn std::fmt::Display| {
            let text = format!("{}: {e}", path.display());
            Error::Invalid(text.trim().replace('\n', " "))
        };
        let text = std::fs::read_to_string(path).map_err(|e| wrong(&e))?;
        let description: Self = toml::from_str(&text).map_err(|e| wrong(&e))?;
        for count in [description.instances.rt, description.instances.be] {
            if !(1..=MOST_INSTANCES).contains(&count) {
                let text = format!("instances: {count}, possible are 1 to {MOST_INSTANCES}");
                return Err(wrong(&text));
            }
        }
        Ok(description)
    }

    /// Versions to load when none is named.
    pub(super) fn choose(&self, have: &[u32]) -> Vec<u32> {
        match &self.versions {
            Some(versions) => versions.clone(),
            None => have.last().copied().into_iter().collect(),
        }
    }

    pub(super) fn recipe(&self, name: &ModelName, version: u32, place: &Path) -> Result<Recipe> {
        let origin = Origin::find(place, self).map_err(|error| of(name, version, error))?;
        let profile = Some(place.join("profile.json")).filter(|profile| profile.is_file());
        Ok(Recipe {
            name: name.clone(),
            version,
            origin,
            size: self.size,
            batch: self.batch,
            profile,
            measure: self.measure,
            instances: self.instances,
        })
    }
}

impl Recipe {
    /// A network by name with made-up weights.
    pub(super) fn builtin(name: &ModelName) -> Self {
        Self {
            name: name.clone(),
            version: 1,
            origin: Origin::Seeded { network: name.as_str().into(), seed: SEED },
            size: None,
            batch: None,
            profile: None,
            measure: false,
            instances: Instances::default(),
        }
    }

    /// Reads everything; files of more than `most` bytes are refused before, 0 is no limit.
    ///
    /// # Errors
    ///
    /// What is wrong, with the model and the file; `Exhausted`.
    pub(crate) fn open(&self, most: u64) -> Result<Opened> {
        let open = || {
            let mut opened = self.origin.open(self.size, self.batch, most)?;
            if let Some(profile) = &self.profile {
                opened.latencies = Some(Latencies::load(profile)?);
            }
            Ok(opened)
        };
        open().map_err(|error| of(&self.name, self.version, error))
    }
}

/// The error, with whose it is.
fn of(name: &ModelName, version: u32, error: Error) -> Error {
    error.map(|text| format!("model {name}/{version}: {text}"))
}
