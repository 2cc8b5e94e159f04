//! Convolutions of tensors by the kernels that networks of images have for them.
//!
//! In: an operation that was checked, and its operands. Out: launches. Invariant: a kernel computes
//! of images what the operation says of tensors.

pub(super) mod depthwise;
pub(super) mod eight;
