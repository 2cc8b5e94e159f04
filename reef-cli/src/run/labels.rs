//! Names of classes: a file with one on each line.

use crate::Usage;
use std::path::Path;

/// The names of all classes, in their order.
pub(super) struct Labels(Vec<String>);

impl Labels {
    /// Reads `file`, which must name each of `classes`.
    pub(super) fn load(file: &Path, classes: usize) -> Result<Self, Usage> {
        let wrong = |why: String| Usage(format!("--labels {}: {why}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let labels: Vec<_> = text.trim_end().lines().map(|line| line.trim().to_owned()).collect();
        if labels.len() != classes {
            return Err(wrong(format!(
                "{} lines, the network has {classes} classes",
                labels.len()
            )));
        }
        Ok(Self(labels))
    }

    /// The name of a class.
    pub(super) fn of(&self, class: usize) -> &str {
        &self.0[class]
    }
}
