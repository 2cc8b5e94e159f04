//! Kinds of networks: what each needs of a device.

use crate::errors::error::Error;
use crate::model::image_model::{ImageModel, Layer};
use crate::model::seeded::Seeded;
use crate::model::tensors::Tensors;
use crate::program::model::ProgramModel;
use crate::quantize::plan::plan_for;
use crate::quantize::scales::Scales;
use crate::run::memory::{LaunchPlan, tensor_scratch};
use crate::tensors::groups::groups;
use crate::tensors::model::TensorModel;
use reef_op::Operators;
use std::sync::Arc;

/// Kernels that a network runs on, with its constants.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ModelKind {
    /// Fused operations on images, which every device has kernels for.
    Image(Arc<ImageModel>, Tensors),
    /// Operations on ordinary tensors.
    Tensors(TensorModel),
    /// Kernels of its own as source. Weights that no file has are made up of the seed.
    Program(Arc<ProgramModel>, Seeded),
}

impl ModelKind {
    /// Bytes of all constants on a device.
    pub(super) fn constant_bytes(&self) -> usize {
        match self {
            Self::Image(model, _) => image_bytes(model),
            Self::Tensors(model) => model.constant_bytes().sum(),
            Self::Program(model, _) => model.constant_bytes(),
        }
    }

    /// Bytes of the largest constant, or of all constants of a step, which come onto a device
    /// together.
    pub(super) fn largest_constant_bytes(&self) -> usize {
        let largest = match self {
            Self::Image(model, _) => model.layers().iter().map(layer_bytes).max(),
            Self::Tensors(model) => model.constant_bytes().max(),
            Self::Program(model, _) => Some(model.constant_bytes()),
        };
        largest.unwrap_or_default()
    }

    /// Bytes of activations and scratch memory on `device`; `None` if the kind counts inputs and
    /// outputs itself. Scales that don't fit the device change nothing.
    pub(super) fn activation_bytes<D: Operators>(
        &self,
        device: &D,
        scales: Option<&Scales>,
    ) -> Option<usize> {
        match self {
            Self::Image(model, _) => {
                let model = plan_for(device, model, scales).unwrap_or_else(|_| model.clone());
                let plan = LaunchPlan::new(device, &model);
                Some(plan.arena(&model).bytes + plan.scratch(device, &model).bytes)
            }
            Self::Tensors(model) => {
                let steps = model.steps_on(device);
                let arena = model.arena_of(groups(device, &steps)).bytes;
                Some(arena + tensor_scratch(device, &steps).bytes)
            }
            Self::Program(..) => None,
        }
    }

    /// The error of callers that want a network for images.
    pub(super) fn not_image(&self) -> Error {
        match self {
            Self::Program(model, _) => Error::Kind {
                file: model.graph().name.clone(),
                why: "brings its kernels as source: it takes bytes, no image".into(),
            },
            Self::Image(model, _) => {
                Error::NotImage { network: model.graph().name.clone(), inputs: String::new() }
            }
            Self::Tensors(model) => {
                let each = model.inputs.iter().map(|port| format!("{}: {}", port.name, port.spec));
                let inputs = each.collect::<Vec<_>>().join(", ");
                Error::NotImage { network: model.name.clone(), inputs }
            }
        }
    }
}

/// Bytes of all constants of a network for images.
pub(super) fn image_bytes(model: &ImageModel) -> usize {
    model.layers().iter().map(layer_bytes).sum()
}

/// Bytes of weights and biases of a layer.
fn layer_bytes(layer: &Layer) -> usize {
    size_of::<f32>() * layer.op.constants().iter().sum::<usize>()
}
