//! From an operation to its launch.

use super::bound::BoundTensors;
use super::{contract, fold, formula, indexed, movement, rows};
use crate::gpu::Gpu;
use crate::vendor::calls::Vendor;
use reef_core::op::TensorOperands;
use reef_core::tensor::{Kind, TensorOp};
use reef_core::{Launch, Result};

/// The launch that computes `op`; none if it has no outputs.
///
/// # Errors
///
/// `Invalid` if the operation is not sound or its operands don't hold their tensors, `Unsupported` if the device has
/// no kernel for it.
pub(in crate::operators) fn build<V: Vendor>(
    gpu: &Gpu<V>,
    op: &TensorOp,
    operands: &TensorOperands<'_, Gpu<V>>,
) -> Result<Vec<Launch<Gpu<V>>>> {
    let bound = BoundTensors::new(gpu, op, operands)?;
    if bound.count() == 0 {
        return Ok(Vec::new());
    }
    let launch = match &op.kind {
        Kind::Map(op) => formula::build(&bound, op),
        Kind::Move(op) => movement::build_move(&bound, op),
        Kind::Concat(op) => movement::build_concat(&bound, op),
        Kind::Fold(op) => fold::build(&bound, op),
        Kind::Contract(op) => contract::build(&bound, op),
        Kind::Gather(op) => indexed::build_gather(&bound, op),
        Kind::Scatter(op) => indexed::build_scatter(&bound, op),
        Kind::Scan(op) => rows::build_scan(&bound, op),
        Kind::TopK(op) => rows::build_top(&bound, op),
    };
    Ok(vec![launch?])
}
