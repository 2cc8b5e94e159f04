//! Reads networks of ordinary tensors: any rank and type, several inputs and outputs.
//!
//! In: the messages of a file. Out: a [`TensorModel`](crate::kinds::TensorModel). Each node becomes
//! operations of [`reef_op::tensor`], by the function that [`operators`] has for it; a function
//! of the file becomes those of its body.
//!
//! Invariants: all shapes are known when a network has been read. Where values of an input decide
//! about shapes, they are given beforehand ([`values`](options::TensorOptions)) and are constants
//! from then on.

mod bounds;
pub(super) mod call;
pub(super) mod few;
mod marks;
pub(super) mod operators;
pub(crate) mod options;
mod order;
mod readers;
mod repeat;
mod sequences;
pub(super) mod stored;
pub(super) mod texts;
pub(super) mod walk;
