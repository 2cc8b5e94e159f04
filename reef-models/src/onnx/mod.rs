//! Reads networks from ONNX files.
//!
//! Operators are those that convolutional networks for pictures are made of, at operator sets 13 to
//! 21 (see [`OPERATORS`]). Each is taken apart into convolutions, channel-wise affine maps, pools,
//! activations, sums, products and concatenations, and these are put together again as few
//! operations of [`reef_core::op`]: normalisations go into weights, sums and ReLU into
//! convolutions, concatenations cost nothing. What can't be expressed exactly is an error that
//! names the node: means over windows of different sizes at the edge, pools whose padding differs
//! between the sides so that it matters, outputs with more than one row and column.
//!
//! | ONNX | operation |
//! |---|---|
//! | `HardSwish`, `HardSigmoid` with torch's alpha = 1/6 and beta = 0.5, `Sigmoid`, `Clip` | the function of the convolution before it, else `Activate` |
//! | `Mul` of a tensor and its own `Sigmoid` or `HardSigmoid` | the same, with one function for both |
//! | `Mul` of two tensors of one shape, or with one value for each channel of each image (a gate) | `Multiply`, a step of its own |
//!
//! ```no_run
//! let network = reef_models::onnx::load("resnet18.onnx", &Default::default())?;
//! let logits = reef_models::reference::execute(&network.model, &network.params, &[0.0; 3 * 224 * 224])?;
//! # Ok::<(), reef_models::Error>(())
//! ```

mod asked;
mod constant;
mod copy;
mod declared;
pub(crate) mod evaluate;
mod external;
mod fault;
mod file;
pub(crate) mod general;
pub(crate) mod load;
mod metadata;
mod node;
mod operators;
mod protobuf;
mod scope;
pub(crate) mod walk;
mod window;

pub use copy::copy;
pub use declared::{Declared, DeclaredPort, DeclaredSize, declared};
pub use evaluate::{execute, execute_bytes};
pub use general::{
    TensorOptions, input_names, load_for, load_for_within, load_tensors, load_tensors_within,
    read_tensor, tensors_from_bytes,
};
pub use load::{Imported, OPSETS, from_bytes, from_bytes_within, load, load_within};
pub use metadata::metadata;
pub use operators::OPERATORS;
pub use walk::Options;
