//! Tensors that are held in memory.

use super::tensor::{Source, TensorSpec};
use crate::errors::error::{Error, Result};
use std::collections::BTreeMap;

/// Tensors by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Params {
    /// The values of each tensor.
    pub tensors: BTreeMap<String, Vec<f32>>,
}

impl Params {
    /// Takes the values of `tensor` out.
    pub(crate) fn take(&mut self, tensor: &TensorSpec) -> Result<Vec<f32>> {
        self.find(tensor)?;
        Ok(self.tensors.remove(&tensor.name).unwrap_or_default())
    }

    /// The values of `tensor`.
    pub(super) fn find(&self, tensor: &TensorSpec) -> Result<&Vec<f32>> {
        let missing = || Error::MissingTensor { name: tensor.name.clone() };
        let values = self.tensors.get(&tensor.name).ok_or_else(missing)?;
        if values.len() != tensor.elements {
            let (given, want) = (values.len(), tensor.elements);
            return Err(Error::Length { what: tensor.name.clone(), given, want });
        }
        Ok(values)
    }
}

impl Source for Params {
    fn tensor(&self, tensor: &TensorSpec) -> Result<Vec<f32>> {
        self.find(tensor).cloned()
    }
}
