//! Operators of networks that read and write tokens: attention, the places of tokens, and caches of
//! keys and values.
//!
//! In: a node with its operands. Out: products, softmax, moves and formulas, such that a device
//! that has attention as one operation finds it again ([`crate::tensors::attention`]).

pub(super) mod attention;
pub(super) mod cache;
pub(super) mod heads;
pub(super) mod masks;
mod rotary;
mod state;
#[cfg(test)]
mod tests;
