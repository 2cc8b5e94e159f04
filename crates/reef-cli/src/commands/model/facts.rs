//! Figures of a network.

use crate::report::output::print;
use anyhow::Result;
use reef::models::kinds::ImageModel;
use std::fmt::Display;

/// Figures of a network, as JSON.
#[derive(serde::Serialize)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) steps: usize,
    pub(crate) parameters: usize,
    /// Batch, channels, rows, columns.
    pub(crate) input: [usize; 4],
    pub(crate) output: [usize; 4],
}

impl Facts {
    pub(crate) fn of(name: impl Display, model: &ImageModel) -> Self {
        Self {
            name: name.to_string(),
            steps: model.layers().len(),
            parameters: model.parameters(),
            input: model.input().shape(),
            output: model.output().shape(),
        }
    }
}

/// Prints the figures of a network.
pub(crate) fn describe(place: impl Display, model: &ImageModel) -> Result<()> {
    let Facts { name, steps, parameters, input, output: [batch, classes, ..] } =
        Facts::of(place, model);
    print(format_args!(
        "{name}: {steps} steps, {:.2} M parameters, {} to {batch}x{classes}",
        parameters as f64 / 1e6,
        input.map(|side| side.to_string()).join("x"),
    ))
}
