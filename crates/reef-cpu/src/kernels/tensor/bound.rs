//! An operation with its operands, and the ways in which its blocks run: the loops that define it,
//! a range of outputs at a time, or kernels by vectors.
//!
//! A block computes its range into memory of its own, checks whether to stop all along, and copies
//! the range to the output in one go. Formulas are so short that they are written as they are made.

use super::attention::heads::Heads;
use super::dense::Dense;
use super::formulas::formula::Vectors;
use super::moves::turned::Turned;
use super::products::matrices::Matrices;
use crate::kernel::{Block, Outcome};
use crate::kernels::blocks::operand_layout::OperandMemory;
use crate::kernels::blocks::stop_token::StopToken;
use reef_core::{Error, Result};
use reef_op::tensor::TensorOp;
use std::ops::Range;
use std::sync::Arc;

/// Steps of a loop that a block makes at most, if its outputs can be divided so: some hundred
/// microseconds.
const STEPS: usize = 256 * 1024;
/// Outputs of a block at most: they are copied at once.
const OUTPUTS: usize = 16 * 1024;
/// Blocks that an operation is cut into if it is large enough for that many.
const BLOCKS: usize = 8;
/// Steps for which a block of its own pays.
const MIN_STEPS: usize = 16 * 1024;
/// Outputs that are finished between two polls of the stop word.
const FINISHED: usize = 2048;

/// An operation with its operands.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    op: Arc<TensorOp>,
    inputs: Vec<Dense>,
    output: Dense,
    /// Outputs of one block.
    pub(super) outputs: usize,
}

impl Bound {
    /// An operation with as many operands as `op`, which was checked, has.
    pub(super) fn new(
        op: &Arc<TensorOp>,
        inputs: &[OperandMemory],
        output: &OperandMemory,
    ) -> Result<Self> {
        let inputs = inputs.iter().zip(&op.inputs).map(|(place, spec)| Dense::new(place, spec));
        let bound = Self {
            inputs: inputs.collect::<Result<_>>()?,
            output: Dense::new(output, &op.output)?,
            outputs: outputs_of_a_block(op),
            op: op.clone(),
        };
        check_apart(bound.inputs.iter().map(Dense::addresses), &bound.output.addresses())?;
        Ok(bound)
    }

    /// All inputs from number `first` on, which are singles.
    ///
    /// # Safety
    ///
    /// No other thread writes them while the slices live.
    unsafe fn singles(&self, first: usize) -> Vec<&[f32]> {
        // SAFETY: no other thread writes the inputs while the slices live: this function demands
        // it.
        self.inputs[first..].iter().map(|input| unsafe { input.singles() }).collect()
    }

    /// Like [`run`](Self::run), of products of matrices with a formula behind them.
    pub(super) fn multiply(
        &self,
        matrices: &Matrices,
        formula: Option<&Vectors>,
        block: &mut Block<'_>,
    ) -> Outcome {
        let (stop, index) = (StopToken::of(block), block.index as usize);
        let order = [matrices.left, 1 - matrices.left];
        // SAFETY: the block has borrowed the buffers, and no block of this launch writes what is
        // read.
        let inputs = order.map(|input| unsafe { self.inputs[input].singles() });
        let own = formula.map_or(0, Vectors::scratch);
        let (scratch, own) =
            block.scratch(matrices.scratch() + own).split_at_mut(matrices.scratch());
        if !matrices.compute(index, inputs, scratch, stop) {
            return Outcome::Stopped;
        }
        if let Some(formula) = formula {
            // SAFETY: the block has borrowed the buffers, and no block of this launch writes what
            // is read.
            let others = unsafe { self.singles(2) };
            let done = matrices.each_run(index, scratch, |first, sums| {
                formula.replace(sums, &others, first, own);
                !stop.is_set()
            });
            if !done {
                return Outcome::Stopped;
            }
        }
        matrices.each_run(index, scratch, |first, sums| {
            // SAFETY: blocks write disjoint elements of the output, which overlaps nothing that is
            // read.
            unsafe { self.output.write_singles(first, sums) };
            true
        });
        Outcome::Done
    }

    /// Like [`run`](Self::run), of attention.
    pub(super) fn attend(&self, heads: &Heads, block: &mut Block<'_>) -> Outcome {
        let (stop, index) = (StopToken::of(block), block.index as usize);
        // SAFETY: the block has borrowed the buffers, and no block of this launch writes what is
        // read.
        let inputs: Vec<_> = self.inputs.iter().map(|input| unsafe { input.values() }).collect();
        let scratch = block.scratch(heads.scratch());
        if !heads.compute(index, &inputs, scratch, stop) {
            return Outcome::Stopped;
        }
        // SAFETY: blocks write disjoint rows of the output, which overlaps nothing that is read.
        heads.commit(index, scratch, |first, row| unsafe { self.output.write_singles(first, row) });
        Outcome::Done
    }

    /// Like [`run`](Self::run), of formulas of singles, `outputs` of them in a block: `make` fills
    /// memory with the outputs from the first one on, with so much scratch memory.
    pub(super) fn run_formula(
        &self,
        outputs: usize,
        scratch: usize,
        block: &mut Block<'_>,
        make: impl FnOnce(&[&[f32]], usize, &mut [f32], &mut [f32]),
    ) -> Outcome {
        if StopToken::of(block).is_set() {
            return Outcome::Stopped;
        }
        let range = self.range(block, outputs);
        // SAFETY: the block has borrowed the buffers, and no block of this launch writes what is
        // read.
        let inputs = unsafe { self.singles(0) };
        // SAFETY: blocks write disjoint ranges of the output, which overlaps nothing that is read.
        let to = unsafe { self.output.singles_mut(range.clone()) };
        make(&inputs, range.start, block.scratch(scratch), to);
        Outcome::Done
    }

    /// Like [`run`](Self::run), of matrices that are turned.
    pub(super) fn turn(&self, turned: &Turned, block: &mut Block<'_>) -> Outcome {
        if StopToken::of(block).is_set() {
            return Outcome::Stopped;
        }
        // SAFETY: the block has borrowed the buffers, and no block of this launch writes what is
        // read.
        let from = unsafe { self.inputs[0].singles() };
        // SAFETY: blocks write disjoint elements of the output, which overlaps nothing that is
        // read.
        turned.compute(block.index as usize, from, |first, values| unsafe {
            self.output.write_singles(first, values);
        });
        Outcome::Done
    }

    /// Like [`run`](Self::run), of the first `N` inputs, which are singles: `make` fills memory
    /// with the sums of outputs from the first one on, unless it was stopped; `formula` is what
    /// becomes of them.
    pub(super) fn run_singles<const N: usize>(
        &self,
        outputs: usize,
        formula: Option<&Vectors>,
        block: &mut Block<'_>,
        make: impl FnOnce([&[f32]; N], usize, &mut [f32], StopToken<'_>) -> bool,
    ) -> Outcome {
        let (stop, range) = (StopToken::of(block), self.range(block, outputs));
        // SAFETY: the block has borrowed the buffers, and no block of this launch writes what is
        // read.
        let inputs = std::array::from_fn(|k| unsafe { self.inputs[k].singles() });
        let own = formula.map_or(0, Vectors::scratch);
        let (made, own) = block.scratch(range.len() + own).split_at_mut(range.len());
        if !make(inputs, range.start, made, stop) {
            return Outcome::Stopped;
        }
        if let Some(formula) = formula {
            // SAFETY: the block has borrowed the buffers, and no block of this launch writes what
            // is read.
            let others = unsafe { self.singles(N) };
            for (k, made) in made.chunks_mut(FINISHED).enumerate() {
                formula.replace(made, &others, range.start + k * FINISHED, own);
                if stop.is_set() {
                    return Outcome::Stopped;
                }
            }
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

    pub(super) fn run(&self, block: &mut Block<'_>) -> Outcome {
        let (stop, range) = (StopToken::of(block), self.range(block, self.outputs));
        // SAFETY: the block has borrowed the buffers, and no block of this launch writes what is
        // read.
        let inputs: Vec<_> = self.inputs.iter().map(|input| unsafe { input.values() }).collect();
        let outputs = self.op.compute_checked(&inputs, range.clone(), &|| stop.is_set());
        let Some(outputs) = outputs.filter(|_| !stop.is_set()) else { return Outcome::Stopped };
        // SAFETY: blocks write disjoint ranges of the output, which overlaps nothing that is read.
        unsafe { self.output.write(range.start, &outputs) };
        Outcome::Done
    }
}

/// Blocks write their parts of the output while others read, so nothing that is read may lie in it.
pub(super) fn check_apart(
    read: impl IntoIterator<Item = Range<usize>>,
    written: &Range<usize>,
) -> Result<()> {
    let meets = |read: Range<usize>| read.start.max(written.start) < read.end.min(written.end);
    if read.into_iter().any(meets) {
        return Err(Error::invalid("output", "cannot overlap what is read"));
    }
    Ok(())
}

/// Number of outputs that one block computes: whole groups.
fn outputs_of_a_block(op: &TensorOp) -> usize {
    let (elements, cost, grain) = (op.output.elements(), op.cost().max(1), op.grain().max(1));
    let most = (STEPS / cost).clamp(1, OUTPUTS);
    let even = elements.div_ceil(BLOCKS).max(MIN_STEPS / cost).max(1);
    most.min(even).next_multiple_of(grain)
}
