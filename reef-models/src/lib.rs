//! Neural networks as schedule graphs: load REEF's, build torchvision's, run them on a device.
//!
//! A [`ScheduleGraph`] is storages and the steps that fill them, in launch order. REEF's published
//! files become one ([`ScheduleGraph::load`]), and so does a network that is built by name
//! ([`build`]) or comes from an ONNX file ([`onnx`]). Only the latter two can run: their steps are
//! operations, for which each device brings kernels of its own.
//!
//! ```text
//! build(name), onnx::load, Folder::load ──► Model ──► Weights::pack(device, source) ──► Network::new ──► commands
//!                                                         ▲
//!                              Seeded, or Params from .param, .safetensors, .onnx
//! ```
//!
//! [`open()`] takes any of these by one string.
//!
//! No step is ever run again, so storages share memory: see [`arena`].
//!
//! ```
//! use reef_models::{Seeded, build, reference};
//!
//! let model = build("resnet18", Some(32), 1)?;
//! let picture = Seeded(1).input(model.input().elements());
//! let logits = reference::execute(&model, &Seeded(1), &picture)?;
//! assert_eq!(logits.len(), 1000);
//! # Ok::<(), reef_models::Error>(())
//! ```

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
#[cfg(feature = "onnx")]
mod open_shaped;
mod program;
mod run;
#[cfg_attr(
    not(feature = "onnx"),
    expect(dead_code, reason = "most operations are those of ONNX files")
)]
mod tensors;
mod zoo;

pub use errors::{Error, Result};
pub use files::{Folder, npy, param, profile, safetensors, unread};
pub use graph::{
    ElementType, KernelCall, Problem, ScheduleGraph, Step, Storage, Work, arena, hazards,
};
pub use memory::{Budget, Charge, Exhausted};
pub use model::{
    Constants, Folded, Kind, Layer, Model, Norm, Port, Ports, Seeded, Source, TensorSpec, Tensors,
};
pub use open::{
    Opened, expected, open, open_weights, open_weights_within, open_within, weights_of,
};
#[cfg(feature = "onnx")]
pub use open_shaped::{onnx_file, open_shaped};
pub use program::{Exchange, ProgramInput, ProgramModel, ProgramWeights, is_program};
#[cfg(feature = "pictures")]
pub use run::picture;
pub use run::{
    AnyModel, LaunchName, Loaded, Network, TensorWeights, Weights, measure, measure_with, measured,
    reference,
};
pub use tensors::{TensorModel, TensorStep};
pub use zoo::{NAMES, TENSOR_NAMES, TEXT_NAMES, build, build_tensors, build_text};
