//! The networks that can be built by name, layer by layer as torchvision has them.
//!
//! In: a name, rows and columns, a batch. Out: a model.
//!
//! Invariant: tensors have torchvision's names and shapes, so that its weights fit.

pub(crate) mod by_name;
mod densenet;
mod inception;
mod plain;
mod resnet;

pub use by_name::{NAMES, build};
