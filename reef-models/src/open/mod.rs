//! The one way in: a network by a name, a file or a folder, and from there onto a device.
//!
//! ```text
//! Model::open(what) ──► ModelBuilder ── read ──► Model
//! Model ── weights(device) ──► Weights ── network ──► Network
//! ModelBuilder ── variants(device) ──► Variants ── get(sizes) ──► Weights
//! Model ── calibrate(device, samples) ──► Scales
//! ```
//!
//! In: a name, a path or the bytes of an ONNX file, and what the caller chooses. Out: a [`Model`],
//! its [`Weights`] on a device, instances.
//!
//! Invariant: callers hold one type. Images, tensors and kernels that come as source are kinds
//! behind it, and only this folder tells them apart.

pub(crate) mod builder;
mod calibrate;
mod describe;
pub(crate) mod kind;
pub(crate) mod model;
#[cfg(feature = "images")]
mod transform;
#[cfg(feature = "onnx")]
mod variants;
pub(crate) mod weights;

pub use builder::{ModelBuilder, weights_of};
pub use model::Model;
#[cfg(feature = "onnx")]
pub use variants::Variants;
pub use weights::Weights;
