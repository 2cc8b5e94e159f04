//! What a `model.toml` may say.

use crate::error::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A `model.toml`. An unknown key is an error.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Description {
    /// Which network it is, one of those that can be built; none if the files say.
    pub(super) network: Option<String>,
    /// Rows and columns of the picture; default: the network's own.
    pub(super) size: Option<usize>,
    /// Pictures at a time, the first dimension of the tensors; default: the network's own, or 1.
    pub(super) batch: Option<usize>,
    /// Makes weights up instead of reading them.
    pub(super) seed: Option<u64>,
    /// Versions that are loaded when none is named; default: the newest.
    pub(super) versions: Option<Vec<u32>>,
    /// Instances for requests of each class of the standard protocol.
    pub(super) instances: Instances,
    /// Shapes for which networks are made ahead, as far as the model leaves sizes open; by names of inputs. The first one
    /// is what clients of the local path get.
    pub(super) shapes: Vec<BTreeMap<String, Vec<usize>>>,
    /// Measures the kernels when it is loaded, if there is no profile.
    pub(super) measure: bool,
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
const MAX_INSTANCES: usize = 16;

impl Description {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let wrong = |e: &dyn std::fmt::Display| {
            let text = format!("{}: {e}", path.display());
            Error::Invalid(text.trim().replace('\n', " "))
        };
        let text = std::fs::read_to_string(path).map_err(|e| wrong(&e))?;
        let description: Self = toml::from_str(&text).map_err(|e| wrong(&e))?;
        for count in [description.instances.rt, description.instances.be] {
            if !(1..=MAX_INSTANCES).contains(&count) {
                let text = format!("instances: {count}, possible are 1 to {MAX_INSTANCES}");
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
}
