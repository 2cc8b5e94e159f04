//! Neural networks as schedule graphs: load REEF's, build torchvision's, run them on a device.
//!
//! A [`Model`] is a network with its constants, [`Weights`] are its constants on a device, and a
//! [`Network`] is an instance that serves one inference at a time. A [`ScheduleGraph`] is storages
//! and the steps that fill them, in launch order: REEF's published files become one
//! ([`ScheduleGraph::load`]), and networks for images have one ([`Model::graph`]).
//!
//! ```text
//! Model::open(a name, a folder or a file) ──► ModelBuilder ── read ──► Model
//! Model ── weights(device) ──► Weights, for its instances ── network ──► Network ──► commands
//! ```
//!
//! No step is ever run again, so storages share memory: see [`arena`].
//!
//! ```
//! use reef_models::{Model, Seeded};
//!
//! let model = Model::open("resnet18").input_size(32).read()?;
//! let logits = model.expected(&Seeded(1).input(model.input_len()))?; // by plain loops
//! assert_eq!(logits.len(), 1000);
//! # Ok::<(), reef_models::Error>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod errors;
mod files;
mod graph;
#[cfg(feature = "onnx")]
mod ir;
mod memory;
mod model;
#[cfg(feature = "onnx")]
pub mod onnx;
mod open;
mod program;
mod quantize;
mod run;
#[cfg_attr(
    not(feature = "onnx"),
    expect(dead_code, reason = "most operations are those of ONNX files")
)]
mod tensors;
mod zoo;

pub use errors::{Error, Result};
pub use files::{npy, param, profile, safetensors, unread};
pub use graph::{
    ElementType, KernelCall, Problem, ScheduleGraph, Step, Storage, Work, arena, hazards,
};
pub use memory::{Budget, Charge, Exhausted};
pub use model::{Extent, Port, Ports, Seeded, Texts};
#[cfg(feature = "onnx")]
pub use open::Variants;
pub use open::{Model, ModelBuilder, Weights, weights_of};
pub use program::is_program;
pub use quantize::Scales;
#[cfg(feature = "images")]
pub use run::image;
pub use run::{InstanceRegion, LaunchName, Network, measure, measure_with, measured};
pub use zoo::{NAMES, TENSOR_NAMES, TEXT_NAMES};

/// Kinds of networks behind [`Model`], for tools and tests that look into one.
#[doc(hidden)]
pub mod kinds {
    pub use crate::model::fold::Folded;
    pub use crate::model::image_model::{ImageModel, Layer};
    pub use crate::model::tensor::{Constants, Kind, Norm, Source, TensorSpec};
    pub use crate::model::tensors::Tensors;
    pub use crate::program::model::{Exchange, ProgramInput, ProgramModel};
    pub use crate::quantize::plan::{full_quantization, plan, quantized_steps};
    pub use crate::run::reference;
    pub use crate::tensors::model::TensorModel;
    pub use crate::tensors::step::TensorStep;
}
