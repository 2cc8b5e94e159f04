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

pub mod arena;
mod check;
mod densenet;
mod error;
mod fold;
mod folder;
mod hazard;
mod inception;
mod json;
mod layers;
mod measure;
mod model;
mod model_json;
#[cfg(feature = "onnx")]
mod net;
mod network;
#[cfg(feature = "onnx")]
pub mod onnx;
mod op_json;
mod open;
pub mod param;
#[cfg(feature = "pictures")]
pub mod picture;
mod plain;
pub mod profile;
pub mod reference;
mod resnet;
pub mod safetensors;
mod schedule;
mod schedule_json;
mod tensor;
mod validate;
mod weights;

pub use error::{Error, Result};
pub use fold::Folded;
pub use folder::Folder;
pub use hazard::hazards;
pub use measure::{measure, measure_with, measured};
pub use model::{Layer, Model, NAMES, build};
pub use network::{LaunchName, Network, Weights};
pub use open::{Opened, Tensors, open, open_weights};
pub use schedule::{ElementType, KernelCall, ScheduleGraph, Step, Storage, Work};
pub use tensor::{Constants, Kind, Norm, Source, TensorSpec};
pub use validate::Problem;
pub use weights::Seeded;
