//! Measured times of kernels: `MODEL.profile.json`.
//!
//! The schema is REEF's. Files of REEF don't hold what the compiled code has: blocks, registers and
//! shared memory. These may stand next to the times, and are written when they are known.

use super::json;
use crate::errors::error::{Error, Result};
use crate::graph::schedule::{ScheduleGraph, Work};
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use reef_core::dkp::{self, Resources};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// Profiles by the name of the launch, as padding wants them.
pub type Profiles = HashMap<String, Arc<dkp::Profile>>;

/// The times of one network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Latencies {
    /// Duration of one inference, in microseconds.
    #[serde(rename = "model_latency")]
    pub micros: u32,
    /// Times of each kernel.
    #[serde(rename = "kernel_latency")]
    pub kernels: BTreeMap<String, KernelLatency>,
}

/// The times of one kernel, and what is known of it besides.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KernelLatency {
    /// Duration of the whole kernel alone, in microseconds.
    #[serde(rename = "total_latency")]
    pub micros: u32,
    /// Duration of one round of blocks with `i + 1` blocks on each unit, in microseconds.
    #[serde(rename = "latency")]
    pub round_micros: Vec<u32>,
    /// Blocks in the grid; not in REEF's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Threads of a block; not in REEF's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Registers of a block; not in REEF's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    /// Bytes of shared memory of a block; not in REEF's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<u32>,
}

impl Latencies {
    /// Reads a `MODEL.profile.json`.
    ///
    /// # Errors
    ///
    /// `Io` if the file can't be read, `Json` if it can't be parsed, `Memory` if that would take
    /// more than the default [budget](Budget).
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_within(path, &Budget::default())
    }

    /// As [`load`](Self::load), with memory of this budget.
    ///
    /// # Errors
    ///
    /// Errors of `load`.
    pub fn load_within(path: impl AsRef<Path>, budget: &Budget) -> Result<Self> {
        json::read(path.as_ref(), &Ledger::new(budget), Self::from_json)
    }

    /// Parses the text of a profile; `file` names it in errors.
    ///
    /// # Errors
    ///
    /// `Json`.
    pub fn from_json(text: &str, file: &str) -> Result<Self> {
        json::parse(text, file)
    }

    /// The text that [`from_json`](Self::from_json) reads.
    ///
    /// # Errors
    ///
    /// None that this data can cause.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|error| Error::Json { file: "profile".into(), why: error.to_string() })
    }

    /// Keeps a profile measured by this library under the name of its launch.
    pub fn insert(&mut self, launch: impl Into<String>, profile: &dkp::Profile) {
        let latency = KernelLatency {
            micros: profile.micros,
            round_micros: profile.round_micros.clone(),
            blocks: Some(profile.blocks),
            threads: Some(profile.resources.threads),
            registers: Some(profile.resources.registers),
            shared: Some(profile.resources.shared),
        };
        self.kernels.insert(launch.into(), latency);
    }

    /// The profiles as padding wants them, from what the file itself says.
    pub fn profiles(&self) -> Profiles {
        let each = |(name, latency): (&String, &KernelLatency)| {
            (name.clone(), Arc::new(latency.profile()))
        };
        self.kernels.iter().map(each).collect()
    }

    /// Profiles of the kernels that `graph` launches, with blocks and threads completed from its
    /// launch geometry.
    ///
    /// Kernels that `graph` doesn't launch are left out.
    pub fn profiles_of(&self, graph: &ScheduleGraph) -> Profiles {
        let mut profiles = Profiles::new();
        for step in &graph.steps {
            let (Work::Kernel(call), Some(latency)) = (&step.work, self.kernels.get(&step.name))
            else {
                continue;
            };
            let mut profile = latency.profile();
            profile.blocks = call.grid.iter().product();
            profile.resources.threads = call.block.iter().product();
            profiles.insert(step.name.clone(), Arc::new(profile));
        }
        profiles
    }
}

impl KernelLatency {
    /// As padding wants it; what isn't known is 0.
    pub fn profile(&self) -> dkp::Profile {
        dkp::Profile {
            blocks: self.blocks.unwrap_or_default(),
            resources: Resources {
                threads: self.threads.unwrap_or_default(),
                registers: self.registers.unwrap_or_default(),
                shared: self.shared.unwrap_or_default(),
            },
            micros: self.micros,
            round_micros: self.round_micros.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of two bytes each, which take eight and more in memory.
    #[test]
    fn text_that_takes_too_much_memory_is_refused() {
        let name = format!("reef-long-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::File::create(&path).unwrap().set_len(50 << 20).unwrap();
        let errors = [
            Latencies::load(&path).map(drop).unwrap_err(),
            ScheduleGraph::load(&path).map(drop).unwrap_err(),
        ];
        std::fs::remove_file(&path).unwrap();
        for error in errors {
            assert!(matches!(error, Error::Memory { .. }), "{error}");
        }
    }

    #[test]
    fn a_measured_profile_comes_back_from_its_text() {
        let resources = Resources { threads: 256, registers: 8192, shared: 1024 };
        let profile = dkp::Profile { blocks: 7, resources, micros: 30, round_micros: vec![9, 11] };
        let mut latencies = Latencies { micros: 30, ..Latencies::default() };
        latencies.insert("conv1", &profile);
        let text = latencies.to_json().unwrap();
        let again = Latencies::from_json(&text, "test").unwrap();
        assert_eq!(*again.profiles()["conv1"], profile);
    }

    #[test]
    fn an_error_names_the_file_and_the_place() {
        let text = r#"{"model_latency": 3, "kernel_latency": {"a": {"total_latency": -1}}}"#;
        let error = Latencies::from_json(text, "x.profile.json").unwrap_err().to_string();
        let start = "x.profile.json: kernel_latency.a.total_latency: invalid value: integer `-1`";
        assert!(error.starts_with(start), "{error}");
        assert!(error.contains("line 1"), "{error}");
        let error = Latencies::from_json("[]", "x").unwrap_err().to_string();
        assert!(error.starts_with("x: invalid length 0"), "no place in the document: {error}");
    }
}
