//! The largest values of a network's storages.

use crate::errors::error::{Error, Result};
use crate::model::image_model::ImageModel;
use reef_op::Format;
use std::collections::BTreeMap;

/// The largest values of a network's storages, from which the scales of their numbers of 8 bits
/// follow. [`Model::calibrate`](crate::Model::calibrate) finds them.
///
/// They hold for any batch and size of the network. As a file they are JSON, of this version alone:
///
/// ```json
/// {"kind": "reef-scales", "version": 1, "network": "resnet50", "format": "int8",
///  "percentile": 100.0, "samples": 16,
///  "largest": {"conv1": 2.61, "layer1.0.conv1": 3.5}}
/// ```
///
/// `largest` has the largest absolute value of each storage between input and output, by the
/// storage's name, which is that of the step that writes it.
///
/// ```
/// use reef_models::Scales;
///
/// let text = r#"{"kind": "reef-scales", "version": 1, "network": "mine", "format": "int8",
///                "percentile": 100.0, "samples": 1, "largest": {"conv1": 2.5}}"#;
/// assert_eq!(Scales::from_json(text, "mine.json")?.largest("conv1"), Some(2.5));
/// # Ok::<(), reef_models::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Scales {
    pub(crate) network: String,
    pub(crate) format: Format,
    pub(crate) percentile: f64,
    pub(crate) samples: usize,
    pub(crate) largest: BTreeMap<String, f32>,
}

impl Scales {
    /// Name of the network.
    pub fn network(&self) -> &str {
        &self.network
    }

    /// Format of the numbers.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns these for numbers of another format.
    #[must_use]
    pub fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// Percentage of a sample's values of a storage that are not above its largest. The others
    /// become the largest number.
    pub fn percentile(&self) -> f64 {
        self.percentile
    }

    /// Number of samples that were seen.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Returns the largest absolute value of a storage, by its name.
    pub fn largest(&self, storage: &str) -> Option<f32> {
        self.largest.get(storage).copied()
    }

    /// Names of the storages with their largest absolute values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f32)> {
        self.largest.iter().map(|(name, &largest)| (name.as_str(), largest))
    }

    /// Refuses those with storages that the network lacks, or without one. The network may have
    /// another name: that of a file is the file's.
    pub(crate) fn check(&self, model: &ImageModel) -> Result<()> {
        let (network, of) = (&model.graph().name, &self.network);
        let wrong = |why| Err(Error::Scales { file: network.clone(), why });
        let is_other = |name: &&String| model.graph().storage(name).is_none();
        if let Some(name) = self.largest.keys().find(is_other) {
            let what = "storages must be those of the network";
            return wrong(format!("scales of {of}: {what}, got {name:?}: calibrate it again"));
        }
        let mut names = inner_storages(model).map(|at| &model.graph().storages[at].name);
        match names.find(|name| !self.largest.contains_key(*name)) {
            Some(name) => {
                wrong(format!("scales of {of} have no storage {name:?}: calibrate it again"))
            }
            None => Ok(()),
        }
    }
}

/// Storages between the input and the output.
pub(super) fn inner_storages(model: &ImageModel) -> impl Iterator<Item = usize> + use<> {
    let graph = model.graph();
    let mut is_inner = vec![false; graph.storages.len()];
    graph.steps.iter().for_each(|step| is_inner[step.writes] = true);
    is_inner[graph.steps[graph.steps.len() - 1].writes] = false;
    (0..is_inner.len()).filter(move |&at| is_inner[at])
}

/// Refuses what is not above 0 and up to 100.
pub(crate) fn check_percentile(percentile: f64) -> Result<(), String> {
    let is_one = percentile > 0.0 && percentile <= 100.0;
    is_one
        .then_some(())
        .ok_or_else(|| format!("percentile: must be above 0 and at most 100, got {percentile}"))
}
