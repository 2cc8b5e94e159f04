//! A network of either kind, before and after its weights are on a device.

use super::constants::{TensorWeights, Weights};
use super::memory::{scratch, tensor_scratch};
use super::network::Network;
use super::rounded::rounded;
use crate::errors::error::{Error, Result};
use crate::graph::arena;
use crate::model::picture_model::{Layer, Model};
use crate::model::ports::Ports;
use crate::model::tensors::Tensors;
use crate::tensors::groups::groups;
use crate::tensors::model::TensorModel;
use reef_core::op::Operators;
use std::sync::Arc;

/// A network and its constants.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyModel {
    /// A convolutional network for pictures, which every device runs.
    Picture {
        /// The schedule.
        model: Model,
        /// Its tensors.
        tensors: Tensors,
    },
    /// A network of ordinary tensors, with its constants.
    Tensors(TensorModel),
}

impl AnyModel {
    /// What goes in.
    pub fn inputs(&self) -> Ports {
        match self {
            Self::Picture { model, .. } => Ports::new([model.input_port()]),
            Self::Tensors(model) => Ports::new(model.inputs.iter().cloned()),
        }
    }

    /// What comes out.
    pub fn outputs(&self) -> Ports {
        match self {
            Self::Picture { model, .. } => Ports::new([model.output_port()]),
            Self::Tensors(model) => Ports::new(model.outputs.iter().cloned()),
        }
    }

    /// The network for pictures that it is, with its tensors.
    ///
    /// # Errors
    ///
    /// `NotPicture` with what it takes, for one of ordinary tensors.
    pub fn picture(&self) -> Result<(&Model, &Tensors)> {
        match self {
            Self::Picture { model, tensors } => Ok((model, tensors)),
            Self::Tensors(model) => Err(not_picture(model)),
        }
    }

    /// The same, to be kept.
    ///
    /// # Errors
    ///
    /// As [`picture`](Self::picture).
    pub fn into_picture(self) -> Result<(Model, Tensors)> {
        match self {
            Self::Picture { model, tensors } => Ok((model, tensors)),
            Self::Tensors(model) => Err(not_picture(&model)),
        }
    }

    /// Bytes that the constants take on a device.
    pub fn constant_bytes(&self) -> usize {
        match self {
            Self::Picture { model, .. } => {
                size_of::<f32>() * model.layers().iter().map(floats).sum::<usize>()
            }
            Self::Tensors(model) => model.constant_bytes().sum(),
        }
    }

    /// Bytes of the largest constant, or of all constants of a step, which come onto a device
    /// together.
    pub fn largest_constant_bytes(&self) -> usize {
        let largest = match self {
            Self::Picture { model, .. } => {
                model.layers().iter().map(|layer| size_of::<f32>() * floats(layer)).max()
            }
            Self::Tensors(model) => model.constant_bytes().max(),
        };
        largest.unwrap_or_default()
    }

    /// Bytes that each instance takes on `device` and, for inputs and outputs, on the host.
    pub fn instance_bytes<D: Operators>(&self, device: &D) -> usize {
        let activations = match self {
            Self::Picture { model, .. } => {
                let scratch = scratch(device, model, &rounded(device, model));
                arena::plan(model.graph()).bytes + scratch.bytes
            }
            Self::Tensors(model) => {
                let steps = model.steps_on(device);
                model.arena_of(groups(device, &steps)).bytes + tensor_scratch(device, &steps).bytes
            }
        };
        activations + 2 * (self.inputs().bytes() + self.outputs().bytes())
    }

    /// Brings the constants onto a device.
    ///
    /// # Errors
    ///
    /// What is wrong with the tensors; the device's.
    pub fn load<D: Operators>(self, device: &D) -> Result<Loaded<D>> {
        let kind = match self {
            Self::Picture { model, tensors } => {
                let weights = Weights::pack(device, &model, &tensors)?;
                Kind::Picture { model: Arc::new(model), weights }
            }
            Self::Tensors(model) => {
                let weights = TensorWeights::upload(device, &model)?;
                Kind::Tensors { model: Arc::new(model.without_values()), weights }
            }
        };
        Ok(Loaded { device: device.clone(), kind })
    }

    /// As [`load`](Self::load), for the network of `base` at other sizes: constants that are the
    /// same are not brought there again.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_beside<D: Operators>(self, base: &Loaded<D>) -> Result<Loaded<D>> {
        let device = &base.device;
        let kind = match (self, &base.kind) {
            (Self::Picture { model, .. }, Kind::Picture { model: other, weights })
                if has_constants_of(&model, other) =>
            {
                Kind::Picture { model: Arc::new(model), weights: weights.clone() }
            }
            (Self::Tensors(model), Kind::Tensors { weights: others, .. }) => {
                let weights = TensorWeights::upload_beside(device, &model, Some(others))?;
                Kind::Tensors { model: Arc::new(model.without_values()), weights }
            }
            (other, _) => return other.load(device),
        };
        Ok(Loaded { device: device.clone(), kind })
    }
}

/// Whether both have the same tensors in the same steps. What a device packs doesn't depend on
/// batch, rows and columns ([`Operators::pack`]).
fn has_constants_of(model: &Model, other: &Model) -> bool {
    let of = |model: &Model| {
        let layers = model.layers().iter();
        layers.map(|layer| (layer.constants.clone(), layer.op.constants())).collect::<Vec<_>>()
    };
    of(model) == of(other)
}

fn not_picture(model: &TensorModel) -> Error {
    let each = model.inputs.iter().map(|port| format!("{}: {}", port.name, port.spec));
    let inputs = each.collect::<Vec<_>>().join(", ");
    Error::NotPicture { network: model.name.clone(), inputs }
}

/// Weights and biases of a layer.
fn floats(layer: &Layer) -> usize {
    layer.op.constants().iter().sum()
}

/// A network whose constants are on a device: any number of instances share them.
#[derive(Debug, Clone)]
pub struct Loaded<D: Operators> {
    device: D,
    kind: Kind<D>,
}

#[derive(Debug, Clone)]
enum Kind<D: Operators> {
    Picture { model: Arc<Model>, weights: Arc<Weights<D>> },
    Tensors { model: Arc<TensorModel>, weights: Arc<TensorWeights<D>> },
}

impl<D: Operators> Loaded<D> {
    /// Makes an instance with memory of its own.
    ///
    /// # Errors
    ///
    /// `Refused` names the node whose operation the device has no kernel for; the device's.
    pub fn network(&self) -> Result<Network<D>> {
        match &self.kind {
            Kind::Picture { model, weights } => Network::new(&self.device, model, weights),
            Kind::Tensors { model, weights } => Network::of_tensors(&self.device, model, weights),
        }
    }

    /// Bytes of constants on the device that it shares with no network that it was loaded
    /// [beside](AnyModel::load_beside).
    pub fn own_constant_bytes(&self, base: Option<&Self>) -> usize {
        match (&self.kind, base.map(|base| &base.kind)) {
            (Kind::Picture { weights, .. }, Some(Kind::Picture { weights: others, .. }))
                if Arc::ptr_eq(weights, others) =>
            {
                0
            }
            (Kind::Picture { model, .. }, _) => {
                size_of::<f32>() * model.layers().iter().map(floats).sum::<usize>()
            }
            (Kind::Tensors { weights, .. }, _) => weights.own_bytes(),
        }
    }

    /// The network for pictures that it is.
    pub fn picture(&self) -> Option<&Model> {
        match &self.kind {
            Kind::Picture { model, .. } => Some(model),
            Kind::Tensors { .. } => None,
        }
    }
}
