//! Formulas behind sums of products, while these are in scratch memory.

use super::formula::Vectors;
use crate::kernels::blocks::plan::Share;
use crate::kernels::blocks::scratch_epilogue::ScratchEpilogue;
use crate::kernels::blocks::stop_token::StopToken;
use crate::kernels::tensor::dense::Dense;
use reef_op::tensor::{Contract, Domain, Element, Finished, Kind, TensorOp};
use std::iter;

/// Sums that are finished between two polls of the stop word.
const SUMS: usize = 2048;

/// The sums of `op`, if they are of singles, in 32 bits, and it is known what becomes of them.
pub(in crate::kernels::tensor) fn sums(op: &TensorOp) -> Option<&Contract> {
    let contract = match &op.kind {
        Kind::Contract(contract) => contract,
        Kind::Finished(finished) => &finished.contract,
        _ => return None,
    };
    let mut specs = op.inputs.iter().chain([&op.output]);
    let singles = specs.all(|spec| spec.element == Element::F32);
    (singles && contract.domain == Domain::F32).then_some(contract)
}

/// The formula behind the sums of `op`; `None` if there is none that has vectors.
pub(in crate::kernels::tensor) fn formula(op: &TensorOp) -> Option<Vectors> {
    let Kind::Finished(Finished { formula, .. }) = &op.kind else { return None };
    Vectors::new(formula, iter::once(&op.output).chain(&op.inputs[2..]), &op.output)
}

/// A formula with its operands.
#[derive(Debug)]
pub(in crate::kernels::tensor) struct Ending {
    pub(in crate::kernels::tensor) formula: Vectors,
    /// All inputs but the sums.
    pub(in crate::kernels::tensor) inputs: Vec<Dense>,
    /// Outputs of a row of sums.
    pub(in crate::kernels::tensor) width: usize,
}

impl Ending {
    /// Its inputs.
    ///
    /// # Safety
    ///
    /// No other thread writes them while the slices live.
    unsafe fn inputs(&self) -> Vec<&[f32]> {
        // SAFETY: no other thread writes the inputs while the slices live: this function demands
        // it.
        self.inputs.iter().map(|input| unsafe { input.singles() }).collect()
    }
}

impl ScratchEpilogue for Ending {
    fn scratch(&self) -> usize {
        self.formula.scratch()
    }

    fn rows(
        &self,
        sums: &mut [f32],
        pitch: usize,
        share: &Share,
        scratch: &mut [f32],
        stop: StopToken<'_>,
    ) -> bool {
        // SAFETY: the block has borrowed the buffers, and no block of this launch writes what is
        // read.
        let inputs = unsafe { self.inputs() };
        let len = share.outputs.len();
        let interval = (SUMS / len).max(1);
        for (k, (row, sums)) in share.pixels.clone().zip(sums.chunks_mut(pitch)).enumerate() {
            if k % interval == 0 && stop.is_set() {
                return false;
            }
            let first = row * self.width + share.outputs.start;
            self.formula.replace(&mut sums[..len], &inputs, first, scratch);
        }
        true
    }
}
