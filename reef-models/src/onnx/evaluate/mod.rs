//! Values of a file's nodes, one after the other as ONNX defines them: the reference for all that
//! is imported.
//!
//! In: a file and the values of its input. Out: the values of its output. Nothing is fused, folded,
//! placed or rewritten on the way, and no code of the importer's operators is used, so a fault of
//! the importer shows as a difference. It is slow: every node makes a tensor of its own.
//!
//! Invariant: what a node gives depends on its operands and attributes alone. Sums are in 64 bits,
//! results rounded once; what is not a number stays none.

mod compute;
mod elementwise;
pub(crate) mod execute;
mod moves;
mod operands;
mod products;
mod sliding;

pub use execute::{execute, execute_bytes};
