//! The constants of networks on a device.

use crate::errors::error::Result;
use crate::model::network_model::{Layer, Model};
use crate::model::tensor::Source;
use crate::tensors::constant::Constant;
use crate::tensors::model::TensorModel;
use reef_core::op::Operators;
use std::sync::Arc;

/// The constants of a network, packed for a device; any number of instances share them.
#[derive(Debug)]
pub struct Weights<D: Operators> {
    /// For each step, unless it has none.
    pub(super) constants: Vec<Option<D::Buffer>>,
}

impl<D: Operators> Weights<D> {
    /// Brings all weights of `model` onto the device, one step at a time.
    ///
    /// # Errors
    ///
    /// Those of `source` and of [`Operators::pack`].
    pub fn pack(device: &D, model: &Model, source: &impl Source) -> Result<Arc<Self>> {
        let pack = |layer: &Layer| {
            if layer.op.constants() == [0, 0] {
                return Ok(None);
            }
            let (weights, bias) = layer.fold(source)?;
            Ok(Some(device.pack(&layer.op, &weights, &bias)?))
        };
        let constants = model.layers().iter().map(pack).collect::<Result<_>>()?;
        Ok(Arc::new(Self { constants }))
    }
}

/// The constants of a network of tensors on a device; any number of instances share them.
#[derive(Debug)]
pub struct TensorWeights<D: Operators> {
    /// By the number of their storage, which grows.
    buffers: Vec<(usize, D::Buffer)>,
}

impl<D: Operators> TensorWeights<D> {
    /// Brings all constants of `model` onto the device.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn upload(device: &D, model: &TensorModel) -> Result<Arc<Self>> {
        let upload = |(storage, constant): &(usize, Constant)| {
            let bytes = constant.array().to_le_bytes();
            let buffer = device.alloc(bytes.len().max(1))?;
            device.write(&buffer, 0, &bytes)?;
            Ok((*storage, buffer))
        };
        let buffers = model.constants.iter().map(upload).collect::<Result<_>>()?;
        Ok(Arc::new(Self { buffers }))
    }

    /// The memory of a storage, if it is a constant.
    pub(super) fn buffer(&self, storage: usize) -> Option<&D::Buffer> {
        let at = self.buffers.binary_search_by_key(&storage, |(number, _)| *number);
        at.ok().map(|at| &self.buffers[at].1)
    }
}
