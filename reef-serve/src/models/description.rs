//! What a `model.toml` may say.

use crate::class::Class;
use crate::error::{Error, Result};
use crate::requests::batch::Batching;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

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
    pub(super) versions: Option<Versions>,
    /// Instances for requests of each class of the standard protocol.
    pub(super) instances: Instances,
    /// Devices that each have that many instances; default: those that the daemon chooses.
    pub(super) devices: Option<Devices>,
    /// How many devices the daemon chooses; default: as the configuration says.
    pub(super) replicas: Option<usize>,
    /// Devices by their places among the daemon's, of a configuration in Triton's form; goes before
    /// both.
    #[serde(skip)]
    pub(super) gpus: Option<Vec<usize>>,
    /// Shapes for which networks are made ahead, as far as the model leaves sizes open; by names of
    /// inputs. The first one is what clients of the local path get.
    pub(super) shapes: Vec<BTreeMap<String, Vec<usize>>>,
    /// Most rows, the first size of all tensors, that run together; 0 or 1: no requests do.
    pub(super) max_batch: usize,
    /// How long a request waits for others to run with, in microseconds.
    pub(super) max_delay_us: u64,
    /// Whether real-time requests run with others as well.
    pub(super) batch_rt: bool,
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

/// Most rows that run together, and most microseconds that a request waits for others.
const MAX_BATCH: usize = 256;
const MAX_DELAY_US: u64 = 1_000_000;

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
        description.check().map_err(|why| wrong(&why))?;
        Ok(description)
    }

    /// Refuses numbers out of range.
    pub(super) fn check(&self) -> Result<(), String> {
        for count in [self.instances.rt, self.instances.be] {
            if !(1..=MAX_INSTANCES).contains(&count) {
                return Err(format!("instances: {count}, possible are 1 to {MAX_INSTANCES}"));
            }
        }
        if self.devices.is_some() && self.replicas.is_some() {
            return Err("devices and replicas: one of them says where it is".into());
        }
        if self.versions == Some(Versions::Latest { latest: 0 }) {
            return Err("versions: the latest 0, possible are 1 and more".into());
        }
        if self.max_batch > MAX_BATCH || self.max_delay_us > MAX_DELAY_US {
            return Err(format!(
                "max_batch: {} in max_delay_us: {}, possible are {MAX_BATCH} in {MAX_DELAY_US}",
                self.max_batch, self.max_delay_us
            ));
        }
        Ok(())
    }

    /// Which devices it is to be on.
    pub(super) fn placing(&self) -> Placing {
        if let Some(gpus) = &self.gpus {
            return Placing::At(gpus.clone());
        }
        match (&self.devices, self.replicas) {
            (Some(Devices::These(names)), _) => Placing::On(names.clone()),
            (Some(Devices::All(_)), _) => Placing::Replicas(0),
            (None, Some(count)) => Placing::Replicas(count),
            (None, None) => Placing::Usual,
        }
    }

    /// How requests of each class are gathered, as [`Class::EACH`].
    pub(super) fn batching(&self) -> [Option<Batching>; 2] {
        let delay = Duration::from_micros(self.max_delay_us);
        let batching = (self.max_batch > 1).then_some(Batching { max: self.max_batch, delay });
        Class::EACH.map(|class| batching.filter(|_| self.batch_rt || class == Class::BestEffort))
    }

    /// Versions to load when none is named, each once.
    pub(super) fn choose(&self, have: &[u32]) -> Vec<u32> {
        match &self.versions {
            Some(Versions::These(versions)) => {
                versions.iter().copied().collect::<BTreeSet<_>>().into_iter().collect()
            }
            Some(Versions::All(_)) => have.to_vec(),
            Some(Versions::Latest { latest }) => {
                have[have.len().saturating_sub(*latest)..].to_vec()
            }
            None => have.last().copied().into_iter().collect(),
        }
    }
}

/// Which versions are loaded when none is named.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "versions: a list, \"all\" or { latest = N }")]
pub(super) enum Versions {
    /// These numbers.
    These(Vec<u32>),
    /// All that there are.
    All(All),
    /// So many of the newest.
    Latest { latest: usize },
}

/// Devices by name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "devices: a list of names, or \"all\"")]
pub(super) enum Devices {
    /// These, each with a replica.
    These(Vec<String>),
    /// All that there are.
    All(All),
}

/// Which devices a model is to be on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placing {
    /// As the configuration says.
    Usual,
    /// So many that the daemon chooses; 0: all.
    Replicas(usize),
    /// These.
    On(Vec<String>),
    /// Those at these places among the daemon's devices.
    At(Vec<usize>),
}

/// The word `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum All {
    All,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_counted_or_all() {
        let placing = |text: &str| {
            let description: Result<Description, _> = toml::from_str(text);
            description.map(|description| description.placing())
        };
        let two = Placing::On(vec!["cuda:0".into(), "cuda:1".into()]);
        assert_eq!(placing("").unwrap(), Placing::Usual);
        assert_eq!(placing("devices = [\"cuda:0\", \"cuda:1\"]").unwrap(), two);
        assert_eq!(placing("devices = \"all\"").unwrap(), Placing::Replicas(0));
        assert_eq!(placing("replicas = 2").unwrap(), Placing::Replicas(2));
        let said = placing("devices = 1").unwrap_err().to_string();
        assert!(said.contains("devices: a list of names, or \"all\""), "{said}");
    }

    #[test]
    fn versions_are_listed_all_or_the_latest() {
        let chosen = |text: &str| {
            let description: Result<Description, _> = toml::from_str(text);
            description.map(|description| description.choose(&[1, 3, 7]))
        };
        assert_eq!(chosen("").unwrap(), [7]);
        assert_eq!(chosen("versions = \"all\"").unwrap(), [1, 3, 7]);
        assert_eq!(chosen("versions = { latest = 2 }").unwrap(), [3, 7]);
        assert_eq!(chosen("versions = { latest = 9 }").unwrap(), [1, 3, 7]);
        assert_eq!(chosen("versions = [3]").unwrap(), [3]);
        assert_eq!(chosen("versions = [3, 1, 3]").unwrap(), [1, 3]);
        let said = chosen("versions = \"newest\"").unwrap_err().to_string();
        assert!(said.contains("versions: a list, \"all\" or { latest = N }"), "{said}");
    }
}
