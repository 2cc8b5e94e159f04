//! What each operator makes of its operands.
//!
//! In: a node, and what the names before it stand for ([`scope`](super::scope)). Out: what its
//! first output stands for. A node that can't be expressed exactly is an error in words that follow
//! its name.

mod constants;
mod linear;
mod maps;
mod pools;
pub(super) mod read;
mod shapes;

pub use read::OPERATORS;
