//! The networks that can be built by name, layer by layer as torchvision and the transformers
//! library have them.
//!
//! In: a name, rows and columns or a number of tokens, a batch. Out: a model.
//!
//! Invariant: tensors have the names and shapes of these libraries, so that their weights fit.

pub(crate) mod by_name;
mod densenet;
mod inception;
mod mobilenet;
mod plain;
mod range;
mod resnet;
pub(crate) mod tensors_by_name;
pub(crate) mod text;
mod transformer;
mod vision;

pub use by_name::NAMES;
pub use tensors_by_name::TENSOR_NAMES;
pub use text::TEXT_NAMES;
