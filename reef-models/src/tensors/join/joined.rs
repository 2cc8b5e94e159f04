//! Both ways of joining, one after the other.

use super::{finished, rows};
use crate::model::ports::Port;
use crate::tensors::step::TensorStep;
use reef_op::tensor::TensorOp;

/// `steps` with those joined that `takes` takes.
pub(in crate::tensors) fn joined(
    steps: &[TensorStep],
    outputs: &[Port],
    takes: &dyn Fn(&TensorOp) -> bool,
) -> Vec<TensorStep> {
    let steps = finished::join(steps, outputs, takes);
    rows::join(steps, outputs, takes)
}
