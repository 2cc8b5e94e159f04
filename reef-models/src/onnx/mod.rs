//! Reads networks from ONNX files.
//!
//! ```text
//! file ── walk ──► operations on tensors ── recognised ──► network for images
//!                                        └─ otherwise ───► network of tensors
//! ```
//!
//! One reader makes operations of [`reef_op::tensor`] of all nodes (`general`). Where a file has
//! one input of images, operator sets 13 to 21 and [`OPERATORS`] alone (`images`), these are
//! recognised as convolutions, channel-wise affine maps, pools, activations, sums, products and
//! concatenations (`ir::recognise`), and put together again as few operations for images
//! ([`reef_op::Op`]): normalisations go into weights, sums and ReLU into convolutions,
//! concatenations cost nothing. What can't be expressed exactly stays a network of tensors: means
//! over windows of different sizes at the edge, pools whose padding differs between the sides so
//! that it matters, outputs with more than one row and column.
//!
//! | ONNX | operation |
//! |---|---|
//! | `HardSwish`, `HardSigmoid` with torch's alpha = 1/6 and beta = 0.5, `Sigmoid`, `Clip` | the function of the convolution before it, else `Activate` |
//! | `Mul` of a tensor and its own `Sigmoid` or `HardSigmoid` | the same, with one function for both |
//! | `Mul` of two tensors of one shape, or with one value for each channel of each image (a gate) | `Multiply`, a step of its own |
//!
//! ```no_run
//! let model = reef_models::Model::open("resnet18.onnx").read()?;
//! let logits = model.expected(&[0.0; 3 * 224 * 224])?;
//! # Ok::<(), reef_models::Error>(())
//! ```

mod constant;
mod copy;
pub(crate) mod declared;
pub(crate) mod evaluate;
mod external;
mod fault;
mod file;
pub(crate) mod general;
pub(crate) mod images;
mod metadata;
mod node;
mod opset;
mod protobuf;
pub(crate) mod read;
mod reads;

pub use copy::copy;
pub use declared::{Declared, DeclaredPort, DeclaredSize, declared, read_value};
pub use evaluate::{execute, execute_bytes};
pub use general::stored::read_tensor;
pub use general::texts::read_texts;
pub use images::OPERATORS;
pub use metadata::metadata;
pub use opset::OPSETS;
pub use read::file_of;
