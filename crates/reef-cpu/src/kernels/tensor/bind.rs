//! Picks the kernel of an operation on tensors of any rank and type.

use super::attention::heads::Heads;
use super::bound::{Bound, check_apart};
use super::dense::Dense;
use super::formulas::finish::{Ending, formula};
use super::formulas::folds::Rows;
use super::formulas::formula::Vectors;
use super::formulas::row_map::RowVectors;
use super::moves::runs::Moves;
use super::moves::turned::Turned;
use super::products::layers::Layer;
use super::products::matrices::Matrices;
use super::products::sums::Sums;
use crate::kernel::{Block, Kernel};
use crate::kernels::blocks::operand_layout::{OperandMemory, grid};
use crate::kernels::blocks::scratch_epilogue::ScratchEpilogue;
use crate::kernels::images::convolution::bound_conv::BoundConv;
use crate::kernels::images::convolution::gathered::block as gathered;
use reef_core::{Error, Result};
use reef_op::PackedInput;
use reef_op::tensor::{Kind, TensorOp};
use std::sync::Arc;

/// Memory of the operands of an operation.
#[derive(Debug)]
pub(crate) struct BoundOperands<'a> {
    pub(crate) inputs: &'a [OperandMemory],
    pub(crate) output: &'a OperandMemory,
    /// The input that has a packed form is in it.
    pub(crate) packed: bool,
}

/// The kernel that computes `op` on a device of `units` units, with its number of blocks.
///
/// # Errors
///
/// `Invalid` if the operation is not sound, a storage is too small, or the output overlaps what is
/// read.
pub(crate) fn bind(
    op: &Arc<TensorOp>,
    places: &BoundOperands<'_>,
    units: u32,
) -> Result<(Kernel, u32)> {
    op.check()?;
    let BoundOperands { inputs, output, packed } = *places;
    if inputs.len() != op.inputs.len() {
        return Err(Error::invalid(
            format!("inputs of {}", op.name()),
            format!("must be {}, got {}", op.inputs.len(), inputs.len()),
        ));
    }
    if packed {
        return layer(op, inputs, output, units);
    }
    let bound = Bound::new(op, inputs, output)?;
    if let Some((kernel, blocks)) = product(op, bound.clone()) {
        return Ok((kernel, grid(blocks)?));
    }
    if let Some(heads) = Heads::of(op) {
        let blocks = grid(heads.blocks())?;
        return Ok((Kernel::new(op.name(), move |block, _| bound.attend(&heads, block)), blocks));
    }
    let blocks_of = |outputs: usize| grid(op.output.elements().div_ceil(outputs));
    if let Some(vectors) = Vectors::of(op) {
        let blocks = blocks_of(vectors.outputs)?;
        let run = move |block: &mut Block<'_>| {
            bound.run_formula(
                vectors.outputs,
                vectors.scratch(),
                block,
                |inputs, first, own, to| {
                    vectors.compute(inputs, first, own, to);
                },
            )
        };
        return Ok((Kernel::new(op.name(), move |block, _| run(block)), blocks));
    }
    if let Some(rows) = RowVectors::of(op) {
        let blocks = blocks_of(rows.outputs)?;
        let run = move |block: &mut Block<'_>| {
            bound.run_formula(rows.outputs, rows.scratch(), block, |inputs, first, own, to| {
                rows.compute(inputs, first, own, to);
            })
        };
        return Ok((Kernel::new(op.name(), move |block, _| run(block)), blocks));
    }
    if let Some(turned) = Turned::of(op) {
        let blocks = grid(turned.blocks())?;
        return Ok((Kernel::new(op.name(), move |block, _| bound.turn(&turned, block)), blocks));
    }
    if let Some(moves) = Moves::of(op) {
        let blocks = blocks_of(moves.outputs)?;
        let run = move |block: &mut Block<'_>| {
            bound.run_formula(moves.outputs, 0, block, |inputs, first, _, to| {
                moves.compute(inputs[0], first, to);
            })
        };
        return Ok((Kernel::new(op.name(), move |block, _| run(block)), blocks));
    }
    if let Some(rows) = Rows::of(op) {
        let blocks = blocks_of(rows.outputs)?;
        let run = move |block: &mut Block<'_>| {
            bound.run_singles(rows.outputs, None, block, |[input], first, to, stop| {
                rows.compute(input, first, to, stop)
            })
        };
        return Ok((Kernel::new(op.name(), move |block, _| run(block)), blocks));
    }
    let blocks = blocks_of(bound.outputs)?;
    Ok((Kernel::new(op.name(), move |block, _| bound.run(block)), blocks))
}

/// The kernel for sums of products with what is behind them, if there are vectors for all of it,
/// and its blocks.
fn product(op: &TensorOp, bound: Bound) -> Option<(Kernel, usize)> {
    let formula = formula(op);
    if formula.is_none() && matches!(op.kind, Kind::Finished(_)) {
        return None;
    }
    if let Some(matrices) = Matrices::of(op) {
        let blocks = matrices.blocks();
        let run = move |block: &mut Block<'_>| bound.multiply(&matrices, formula.as_ref(), block);
        return Some((Kernel::new(op.name(), move |block, _| run(block)), blocks));
    }
    let sums = Sums::of(op)?;
    let outputs = sums.outputs(bound.outputs);
    let blocks = op.output.elements().div_ceil(outputs);
    let run = move |block: &mut Block<'_>| {
        bound.run_singles(outputs, formula.as_ref(), block, |inputs: [_; 2], first, to, stop| {
            sums.compute(inputs, first, to, stop)
        })
    };
    Some((Kernel::new(op.name(), move |block, _| run(block)), blocks))
}

/// The kernel for rows times a packed matrix.
fn layer(
    op: &TensorOp,
    inputs: &[OperandMemory],
    output: &OperandMemory,
    units: u32,
) -> Result<(Kernel, u32)> {
    let layer = Layer::of(op)
        .ok_or_else(|| Error::invalid(format!("inputs of {}", op.name()), "cannot be packed"))?;
    let constants = &inputs[layer.packed.input];
    constants.check(layer.packed.bytes)?;
    let written = Dense::new(output, &op.output)?.addresses();
    // All of the buffer is read as constants, so nothing in it is written.
    let mut read = vec![constants.addresses(constants.buffer.bytes())];
    let mut others = Vec::new();
    for (k, (place, spec)) in inputs.iter().zip(&op.inputs).enumerate() {
        if k != layer.packed.input {
            let dense = Dense::new(place, spec)?;
            read.push(dense.addresses());
            others.extend((k > 1).then_some(dense));
        }
    }
    check_apart(read, &written)?;
    if constants.offset > 0 {
        return Err(Error::invalid("packed input", "must begin its buffer"));
    }
    let finish = layer.formula.map(|formula| -> Box<dyn ScratchEpilogue> {
        Box::new(Ending { formula, inputs: others, width: layer.conv.output.channels })
    });
    let (input, constants) = (&inputs[layer.rows], &constants.buffer);
    let conv = BoundConv { op: &layer.conv, input, residual: None, output, constants, units };
    gathered::build_finished(op.name(), &conv, finish)
}

/// Returns whether there is a kernel for an operation that others could make as well.
pub(crate) fn has_joined(op: &TensorOp) -> bool {
    op.check().is_ok()
        && match &op.kind {
            Kind::Finished(_) => {
                formula(op).is_some() && (Matrices::of(op).is_some() || Sums::of(op).is_some())
            }
            Kind::RowMap(_) => RowVectors::of(op).is_some(),
            _ => Heads::of(op).is_some(),
        }
}

/// The input of `op` that has a packed form.
pub(crate) fn packed_input(op: &TensorOp) -> Option<PackedInput> {
    op.check().ok()?;
    Layer::of(op).map(|layer| layer.packed)
}

#[cfg(test)]
mod tests;
