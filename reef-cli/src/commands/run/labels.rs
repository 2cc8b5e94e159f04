//! Names of classes: a file with one on each line.

use crate::report::usage::Usage;
use std::path::Path;

/// The names of all classes, in their order.
pub(crate) struct Labels(Vec<String>);

impl Labels {
    /// Reads `file`, which must name each of `classes`.
    pub(crate) fn load(file: &Path, classes: usize) -> Result<Self, Usage> {
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
    pub(crate) fn of(&self, class: usize) -> &str {
        &self.0[class]
    }
}
