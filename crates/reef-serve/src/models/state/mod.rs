//! Description of the state of sequences: pairs of outputs and inputs.
//!
//! - **In**: keys of `model.toml` or a configuration in Triton's form; tensors of a model.
//! - **Out**: the tensors that are state, with the shapes that a sequence starts with.
//! - **Invariant**: input and output of a pair fit each other, and belong to no other pair.

pub(crate) mod spec;
