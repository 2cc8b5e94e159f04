//! What one version of a model is made of.

use crate::name::ModelName;
use crate::{Error, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Seed of the weights of networks that are built by name, as in the other commands.
const SEED: u64 = 2022;

/// A `model.toml`. An unknown key is an error.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    /// Which network it is, one of those that can be built.
    network: String,
    /// Rows and columns of the picture; default: the network's own.
    size: Option<usize>,
    /// Pictures at a time, the first dimension of the tensors.
    #[serde(default = "one")]
    batch: usize,
    /// Makes weights up instead of reading `weights.param`.
    seed: Option<u64>,
    /// Versions that are loaded when none is named; default: the newest.
    versions: Option<Vec<u32>>,
    /// Instances for requests of each class of the standard protocol.
    #[serde(default)]
    instances: Instances,
    /// Measures the kernels when it is loaded, if there is no `profile.json`.
    #[serde(default)]
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

fn one() -> usize {
    1
}

/// Most instances of one class.
const MOST_INSTANCES: usize = 16;

/// What one version of a model is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recipe {
    pub(crate) name: ModelName,
    pub(crate) version: u32,
    pub(crate) network: String,
    pub(crate) size: Option<usize>,
    pub(crate) batch: usize,
    pub(crate) weights: Weights,
    pub(crate) profile: Profile,
    pub(crate) instances: Instances,
}

/// Where weights come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Weights {
    Seeded(u64),
    File(PathBuf),
}

/// Where latencies of kernels come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Profile {
    None,
    Measured,
    File(PathBuf),
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
        let [weights, profile] = ["weights.param", "profile.json"].map(|file| place.join(file));
        let weights = match self.seed {
            Some(seed) => Weights::Seeded(seed),
            None if weights.is_file() => Weights::File(weights),
            None => {
                let text = format!("model {name}, version {version}: no weights.param and no seed");
                return Err(Error::NotFound(text));
            }
        };
        let profile = match self.measure {
            _ if profile.is_file() => Profile::File(profile),
            true => Profile::Measured,
            false => Profile::None,
        };
        Ok(Recipe {
            name: name.clone(),
            version,
            network: self.network.clone(),
            size: self.size,
            batch: self.batch,
            weights,
            profile,
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
            network: name.as_str().into(),
            size: None,
            batch: 1,
            weights: Weights::Seeded(SEED),
            profile: Profile::None,
            instances: Instances::default(),
        }
    }
}
