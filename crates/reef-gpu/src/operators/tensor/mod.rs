//! Operations on ordinary tensors become launches of kernels/tensor.cu.
//!
//! In: an operation of [`reef_op::tensor`] and where its tensors lie. Out: one launch that
//! computes it, with a *plan*: words in the device's memory that say what the kernel is to do,
//! which the launch keeps with its operands. Invariants: every operand lies inside its buffer, and
//! every place in a plan inside its operand, because
//! [`TensorOp::check`](reef_op::tensor::TensorOp::check) is the first thing that happens; all
//! counts are below 2³¹.

mod attention;
mod bound;
pub(super) mod build;
mod fold;
mod formula;
mod images;
mod indexed;
mod launch;
mod movement;
mod normal;
mod plan;
mod products;
mod row_map;
mod rows;
mod scalar;
