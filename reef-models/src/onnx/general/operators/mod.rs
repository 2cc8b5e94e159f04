//! Operators as operations on tensors.
//!
//! In: a node with its operands ([`Call`](super::call::Call)), and the network so far. Out: its
//! results. A node that can't be expressed is an error in words that follow its name.

mod elements;
#[cfg(test)]
#[path = "../../../../tests/handmade/mod.rs"]
mod handmade;
mod lower;
mod microsoft;
mod ml;
mod places;
mod quantized;
mod recurrent;
mod sampled;
mod signals;
mod sums;
mod tokens;

pub(in crate::onnx) use lower::lower;
