//! Operations on ordinary tensors on any device: what `TensorOp::compute` gives, and the same bits
//! whatever is preempted.
//!
//! In: a device. Out: nothing, or a panic that names the operation and the seed.

mod attention;
mod bench;
mod depthwise;
mod eight;
mod functions;
mod kinds;
mod network;
pub(crate) mod quantized;
mod rows;

pub(crate) use attention::joined_attention_agrees;
pub(crate) use functions::functions_agree;
#[cfg(feature = "cuda")]
pub(crate) use kinds::eights_agree;
pub(crate) use kinds::kinds_agree;
pub(crate) use network::{attention_agrees, layers_agree};
pub(crate) use quantized::quantized_files_agree;
