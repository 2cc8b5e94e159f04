//! The constants of a network on a device.

use super::kind::{ModelKind, image_bytes};
use crate::errors::error::{Error, Result};
use crate::model::image_model::{ImageModel, Layer};
use crate::model::seeded::Seeded;
use crate::program::model::ProgramModel;
use crate::program::network::ProgramWeights;
use crate::quantize::plan::plan_for;
use crate::quantize::scales::Scales;
use crate::run::constants::{PackedWeights, TensorWeights};
use crate::run::network::Network;
use crate::tensors::model::TensorModel;
use reef_op::program::Program;
use reef_op::{Op, Operators};
use std::sync::Arc;

/// The constants of a network on a device: any number of instances share them.
///
/// A clone is the same memory. It lives until the last clone and the last instance are dropped.
///
/// ```
/// use reef_op::Operators;
/// use reef_models::{Model, Network, Result};
///
/// fn two<D: Operators>(device: &D) -> Result<[Network<D>; 2]> {
///     let weights = Model::open("resnet18").read()?.weights(device)?;
///     Ok([weights.network()?, weights.network()?]) // memory of their own for activations
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Weights<D: Operators> {
    device: D,
    kind: WeightsKind<D>,
}

#[derive(Debug, Clone)]
enum WeightsKind<D: Operators> {
    Image(Arc<ImageModel>, Arc<PackedWeights<D>>),
    Tensors(Arc<TensorModel>, Arc<TensorWeights<D>>),
    Program(Arc<ProgramModel>, Arc<ProgramWeights<D>>),
}

impl<D: Operators> Weights<D> {
    /// Brings the constants of a network onto `device`.
    pub(super) fn load(device: &D, model: &ModelKind, scales: Option<&Scales>) -> Result<Self> {
        let kind = match model {
            ModelKind::Image(model, tensors) => {
                let model = plan_for(device, model, scales)?;
                let weights = PackedWeights::pack(device, &model, tensors)?;
                WeightsKind::Image(model, weights)
            }
            ModelKind::Tensors(model) => {
                let weights = TensorWeights::upload(device, model, None)?;
                WeightsKind::Tensors(Arc::new(model.without_values()), weights)
            }
            ModelKind::Program(model, _) => {
                let file = model.graph().name.clone();
                let why = "its kernels are native code, not trusted yet: \
                           Model::load_kernels takes them"
                    .into();
                return Err(Error::Kind { file, why });
            }
        };
        Ok(Self { device: device.clone(), kind })
    }

    /// As [`load`](Self::load), without constants that `base` has already.
    pub(super) fn load_sharing(
        base: &Self,
        model: &ModelKind,
        scales: Option<&Scales>,
    ) -> Result<Self> {
        let device = &base.device;
        let kind = match (model, &base.kind) {
            (ModelKind::Image(model, tensors), WeightsKind::Image(other, weights)) => {
                let model = plan_for(device, model, scales)?;
                let weights = if has_constants_of(&model, other) {
                    weights.clone()
                } else {
                    PackedWeights::pack(device, &model, tensors)?
                };
                WeightsKind::Image(model, weights)
            }
            (ModelKind::Tensors(model), WeightsKind::Tensors(_, others)) => {
                let weights = TensorWeights::upload(device, model, Some(others))?;
                WeightsKind::Tensors(Arc::new(model.without_values()), weights)
            }
            (other, _) => return Self::load(device, other, scales),
        };
        Ok(Self { device: device.clone(), kind })
    }

    /// Compiles trusted kernels, and brings the constants of their network onto `device`.
    pub(super) fn load_kernels(
        device: &D,
        model: &Arc<ProgramModel>,
        program: Program,
        seed: Seeded,
    ) -> Result<Self> {
        let weights = ProgramWeights::load(device, model, program, seed)?;
        let kind = WeightsKind::Program(model.clone(), weights);
        Ok(Self { device: device.clone(), kind })
    }

    /// Makes an instance with memory of its own for activations, inputs and outputs.
    ///
    /// # Errors
    ///
    /// `Refused` names the node whose operation the device has no kernel for; an error of the
    /// device.
    pub fn network(&self) -> Result<Network<D>> {
        match &self.kind {
            WeightsKind::Image(model, weights) => Network::of_images(&self.device, model, weights),
            WeightsKind::Tensors(model, weights) => {
                Network::of_tensors(&self.device, model, weights)
            }
            WeightsKind::Program(model, weights) => Network::of_program(model, weights),
        }
    }

    /// Bytes on the device that it doesn't share with `base`, the network that it was loaded
    /// [next to](super::model::Model::weights_sharing).
    pub fn own_bytes(&self, base: Option<&Self>) -> usize {
        match (&self.kind, base.map(|base| &base.kind)) {
            (WeightsKind::Image(_, weights), Some(WeightsKind::Image(_, others)))
                if Arc::ptr_eq(weights, others) =>
            {
                0
            }
            (WeightsKind::Image(model, _), _) => image_bytes(model),
            (WeightsKind::Tensors(_, weights), _) => weights.own_bytes(),
            (WeightsKind::Program(model, _), _) => model.constant_bytes(),
        }
    }
}

/// Returns whether both have the same tensors in the same steps, with numbers of the same kind.
/// Packed constants don't depend on batch, rows and columns ([`Operators::pack`]).
fn has_constants_of(model: &ImageModel, other: &ImageModel) -> bool {
    let of = |model: &ImageModel| {
        let layouts = |op: &Op| [op.input().layout, op.output().layout];
        let constants =
            |layer: &Layer| (layer.constants.clone(), layer.op.constants(), layouts(&layer.op));
        model.layers().iter().map(constants).collect::<Vec<_>>()
    };
    of(model) == of(other)
}
