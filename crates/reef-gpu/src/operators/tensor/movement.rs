//! Elements from elsewhere, as they are.

use super::bound::{BoundTensors, THREADS};
use super::plan::{NOWHERE as NO_PLACE, Plan};
use super::scalar::stored;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::params::Divisor;
use reef_core::{Launch, Result};
use reef_op::tensor::{Concat, Move, NOWHERE};

/// Outputs of a thread at most.
const ROUNDS: usize = 8;
/// Blocks that an operation is cut into before its threads make several outputs.
const BLOCKS: usize = 2048;

/// Outputs of each thread, and blocks.
pub(super) fn rounds(count: usize) -> (usize, usize) {
    let rounds = (count / (THREADS * BLOCKS)).clamp(1, ROUNDS);
    (rounds, count.div_ceil(THREADS * rounds))
}

/// Bytes of an element of the output.
pub(super) fn element_bytes<V: Vendor>(bound: &BoundTensors<'_, V>) -> u32 {
    bound.op.output.element.bytes() as u32
}

/// `move` in kernels/movement.h.
pub(super) fn build_move<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    op: &Move,
) -> Result<Launch<Gpu<V>>> {
    let (rounds, blocks) = rounds(bound.count());
    let mut plan = Plan::default();
    bound.inputs(&mut plan);
    plan.words(&[element_bytes(bound), rounds as u32]);
    plan.words(&stored(op.fill, bound.op.output.element));
    plan.words(&[op.tables.len() as u32]);
    let axes = plan.len();
    for table in op.tables.iter().rev() {
        let [factor, shift] = Divisor::new(table.len() as u32).words();
        plan.words(&[factor, shift, table.len() as u32, 0]);
    }
    for (k, table) in op.tables.iter().rev().enumerate() {
        plan.set(axes + 4 * k as u32 + 3, plan.len());
        table
            .iter()
            .for_each(|&at| plan.words(&[if at == NOWHERE { NO_PLACE } else { at as u32 }]));
    }
    bound.launch("move", blocks, 0, &plan)
}

/// `concat` in kernels/movement.h.
pub(super) fn build_concat<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    op: &Concat,
) -> Result<Launch<Gpu<V>>> {
    let (rounds, blocks) = rounds(bound.count());
    let row: usize = op.lens.iter().sum();
    let [factor, shift] = Divisor::new(row as u32).words();
    let mut plan = Plan::default();
    plan.words(&[element_bytes(bound), rounds as u32, factor, shift, row as u32]);
    plan.words(&[op.lens.len() as u32]);
    bound.inputs(&mut plan);
    let mut end = 0;
    for &len in &op.lens {
        end += len as u32;
        plan.words(&[end]);
    }
    bound.launch("concat", blocks, 0, &plan)
}
