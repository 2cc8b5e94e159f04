//! Operations on tensors of any rank and type: the loops that define them, a range of outputs at a time.
//!
//! A block computes its range into memory of its own, looks whether to stop all along, and copies the range to the
//! output in one go. Products of matrices, formulas and folds of singles have kernels of their own.

use super::attention::heads::Heads;
use super::dense::Dense;
use super::formula::Vectors;
use super::matrices::Matrices;
use super::rows::Rows;
use super::sums::Sums;
use crate::kernel::{Block, Kernel, Outcome};
use crate::kernels::place::{Place, grid};
use crate::kernels::stop_token::StopToken;
use reef_core::tensor::TensorOp;
use reef_core::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Steps of a loop that a block makes at most, if its outputs can be divided so: some hundred microseconds.
const STEPS: usize = 256 * 1024;
/// Outputs of a block at most: they are copied at once.
const OUTPUTS: usize = 16 * 1024;
/// Blocks that an operation is cut into if it is large enough for that many.
const BLOCKS: usize = 8;
/// Steps for which a block of its own pays.
const LEAST_STEPS: usize = 16 * 1024;

pub(crate) fn bind(op: &Arc<TensorOp>, inputs: &[Place], output: &Place) -> Result<(Kernel, u32)> {
    op.check()?;
    if inputs.len() != op.inputs.len() {
        let text =
            format!("cpu: {} inputs for {}, {} wanted", inputs.len(), op.name(), op.inputs.len());
        return Err(Error::Invalid(text));
    }
    let inputs = inputs.iter().zip(&op.inputs).map(|(place, spec)| Dense::new(place, spec));
    let bound = Bound {
        inputs: inputs.collect::<Result<_>>()?,
        output: Dense::new(output, &op.output)?,
        outputs: outputs_of_a_block(op),
        op: op.clone(),
    };
    bound.check_apart()?;
    if let Some(matrices) = Matrices::of(op) {
        let blocks = grid(matrices.blocks())?;
        return Ok((
            Kernel::new(op.name(), move |block, _| bound.multiply(&matrices, block)),
            blocks,
        ));
    }
    if let Some(heads) = Heads::of(op) {
        let blocks = grid(heads.blocks())?;
        return Ok((Kernel::new(op.name(), move |block, _| bound.attend(&heads, block)), blocks));
    }
    if let Some(vectors) = Vectors::of(op) {
        let blocks = grid(op.output.elements().div_ceil(vectors.outputs))?;
        return Ok((
            Kernel::new(op.name(), move |block, _| bound.run_formula(&vectors, block)),
            blocks,
        ));
    }
    if let Some(rows) = Rows::of(op) {
        let blocks = grid(op.output.elements().div_ceil(rows.outputs))?;
        let run = move |block: &mut Block<'_>| {
            bound.run_singles(rows.outputs, block, |[input], first, to, stop| {
                rows.compute(input, first, to, stop)
            })
        };
        return Ok((Kernel::new(op.name(), move |block, _| run(block)), blocks));
    }
    let blocks = grid(op.output.elements().div_ceil(bound.outputs))?;
    if let Some(sums) = Sums::of(op) {
        let run = move |block: &mut Block<'_>| {
            bound.run_singles(bound.outputs, block, |inputs: [_; 2], first, to, stop| {
                sums.compute(inputs, first, to, stop)
            })
        };
        return Ok((Kernel::new(op.name(), move |block, _| run(block)), blocks));
    }
    Ok((Kernel::new(op.name(), move |block, _| bound.run(block)), blocks))
}

/// Whether there is a kernel for an operation that others could make as well.
pub(crate) fn has_joined(op: &TensorOp) -> bool {
    op.check().is_ok() && Heads::of(op).is_some()
}

/// How many outputs one block computes: whole groups.
fn outputs_of_a_block(op: &TensorOp) -> usize {
    let (elements, cost, grain) = (op.output.elements(), op.cost().max(1), op.grain().max(1));
    let most = (STEPS / cost).clamp(1, OUTPUTS);
    let even = elements.div_ceil(BLOCKS).max(LEAST_STEPS / cost).max(1);
    most.min(even).next_multiple_of(grain)
}

/// An operation with its operands.
#[derive(Debug)]
struct Bound {
    op: Arc<TensorOp>,
    inputs: Vec<Dense>,
    output: Dense,
    /// Of one block.
    outputs: usize,
}

impl Bound {
    /// Blocks write their parts of the output while others read, so nothing that is read may lie in it.
    fn check_apart(&self) -> Result<()> {
        let written = self.output.addresses();
        let meets = |read: &Dense| {
            let read = read.addresses();
            read.start.max(written.start) < read.end.min(written.end)
        };
        match self.inputs.iter().any(meets) {
            true => Err(Error::Invalid("cpu: the output overlaps what is read".into())),
            false => Ok(()),
        }
    }

    /// As [`run`](Self::run), of products of matrices.
    fn multiply(&self, matrices: &Matrices, block: &mut Block<'_>) -> Outcome {
        let (stop, index) = (StopToken::of(block), block.index as usize);
        let order = [matrices.left, 1 - matrices.left];
        // SAFETY: as in `run`.
        let inputs = order.map(|input| unsafe { self.inputs[input].singles() });
        let scratch = block.scratch(matrices.scratch());
        if !matrices.compute(index, inputs, scratch, stop) {
            return Outcome::Stopped;
        }
        // SAFETY: blocks write disjoint elements of the output, which overlaps nothing that is read.
        matrices.commit(index, scratch, |first, sums| unsafe {
            self.output.write_singles(first, sums)
        });
        Outcome::Done
    }

    /// As [`run`](Self::run), of attention.
    fn attend(&self, heads: &Heads, block: &mut Block<'_>) -> Outcome {
        let (stop, index) = (StopToken::of(block), block.index as usize);
        // SAFETY: as in `run`.
        let inputs: Vec<_> = self.inputs.iter().map(|input| unsafe { input.values() }).collect();
        let scratch = block.scratch(heads.scratch());
        if !heads.compute(index, &inputs, scratch, stop) {
            return Outcome::Stopped;
        }
        // SAFETY: blocks write disjoint rows of the output, which overlaps nothing that is read.
        heads.commit(index, scratch, |first, row| unsafe { self.output.write_singles(first, row) });
        Outcome::Done
    }

    /// As [`run`](Self::run), of formulas of singles.
    fn run_formula(&self, vectors: &Vectors, block: &mut Block<'_>) -> Outcome {
        if StopToken::of(block).seen() {
            return Outcome::Stopped;
        }
        let range = self.range(block, vectors.outputs);
        // SAFETY: as in `run`.
        let inputs: Vec<_> = self.inputs.iter().map(|input| unsafe { input.singles() }).collect();
        // SAFETY: blocks write disjoint ranges of the output, which overlaps nothing that is read.
        let to = unsafe { self.output.singles_mut(range.clone()) };
        vectors.compute(&inputs, range.start, block.scratch(vectors.scratch()), to);
        Outcome::Done
    }

    /// As [`run`](Self::run), of the first `N` inputs, which are singles: `make` fills memory with the outputs from the
    /// first one on, unless it was stopped.
    fn run_singles<const N: usize>(
        &self,
        outputs: usize,
        block: &mut Block<'_>,
        make: impl FnOnce([&[f32]; N], usize, &mut [f32], StopToken<'_>) -> bool,
    ) -> Outcome {
        let (stop, range) = (StopToken::of(block), self.range(block, outputs));
        // SAFETY: as in `run`.
        let inputs = std::array::from_fn(|k| unsafe { self.inputs[k].singles() });
        let made = block.scratch(range.len());
        if !make(inputs, range.start, made, stop) {
            return Outcome::Stopped;
        }
        // SAFETY: blocks write disjoint ranges of the output, which overlaps nothing that is read.
        unsafe { self.output.singles_mut(range) }.copy_from_slice(made);
        Outcome::Done
    }

    /// The outputs of a block, if each makes as many as said.
    fn range(&self, block: &Block<'_>, outputs: usize) -> Range<usize> {
        let first = block.index as usize * outputs;
        first..self.output.spec.elements().min(first + outputs)
    }

    fn run(&self, block: &mut Block<'_>) -> Outcome {
        let (stop, range) = (StopToken::of(block), self.range(block, self.outputs));
        // SAFETY: the block has borrowed the buffers, and no block of this launch writes what is read.
        let inputs: Vec<_> = self.inputs.iter().map(|input| unsafe { input.values() }).collect();
        let outputs = self.op.compute_checked(&inputs, range.clone(), &|| stop.seen());
        let Some(outputs) = outputs.filter(|_| !stop.seen()) else { return Outcome::Stopped };
        // SAFETY: blocks write disjoint ranges of the output, which overlaps nothing that is read.
        unsafe { self.output.write(range.start, &outputs) };
        Outcome::Done
    }
}

#[cfg(test)]
mod tests;
