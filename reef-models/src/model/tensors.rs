//! Source of a network's tensors that is chosen while the program runs.

use super::params::Params;
use super::seeded::Seeded;
use super::tensor::{Source, TensorSpec};
use crate::errors::error::Result;

/// Made-up tensors or those of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Tensors {
    /// Made up.
    Seeded(Seeded),
    /// Read.
    Read(Params),
}

impl Source for Tensors {
    fn tensor(&self, tensor: &TensorSpec) -> Result<Vec<f32>> {
        match self {
            Self::Seeded(seeded) => seeded.tensor(tensor),
            Self::Read(params) => params.tensor(tensor),
        }
    }
}
