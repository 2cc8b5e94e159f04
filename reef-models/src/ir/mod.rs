//! A network as values that are made from each other, on its way to a schedule.
//!
//! ```text
//! steps on tensors ── recognise ──► Net ── fuse, place, emit ──► ImageModel and Params
//! ```
//!
//! In: steps that a reader has put together. Out: a model with few operations, and its
//! tensors.
//!
//! Invariant: values stand in the order in which they can be made, a value's operands stand before
//! it. Weights are held by the values themselves until [`emit`](mod@emit) hands them over by name.

pub(crate) mod emit;
pub(crate) mod fuse;
pub(crate) mod place;
pub(crate) mod recognise;
#[cfg(test)]
mod tests;
pub(crate) mod value;
