//! Recognises a network for images in operations on tensors.
//!
//! In: the steps that a reader has put together, before anything of them was fused, and their
//! constants. Out: a [`Net`](super::value::Net) that computes the same, or the step that is in the
//! way. Views and formulas are compared with those that the builder makes of a convolution, a pool
//! or a function, so that a recognised step means exactly that.
//!
//! Invariant: a storage has one shape of batch, channels, rows and columns, in which its maker
//! wrote it; a step that reads it sees that shape, or all but the batch in one, or a single channel
//! without its dimension.

mod content;
mod formula;
pub(crate) mod reading;
mod shape;
mod steps;
mod weights;
mod window;
