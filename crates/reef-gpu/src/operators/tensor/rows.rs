//! Operations on whole rows: scan, top and suppress.

use super::bound::{BoundTensors, THREADS, suffix};
use super::plan::Plan;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use reef_core::{Launch, Result};
use reef_op::tensor::{Element, Scan, Suppress, TopK};

/// Parts of a row that threads make: each begins with the sum of those before it, which its thread
/// makes itself.
const PARTS: usize = 16;
/// Elements of such a part at least and at most: a thread that has begun to write one makes it
/// whole. Longer rows have more parts.
const MIN_PART: usize = 256;
const MAX_PART: usize = 1024;

/// Elements of a part that a block makes, and those of a row from which on it pays.
const BLOCK_PART: usize = 4096;
const BLOCK_ROW: usize = 128;
/// Parts from which on there is one thread for each: they use a device as it is.
const MANY_PARTS: usize = 1 << 12;

/// `scan` in kernels/rows.h.
pub(super) fn build_scan<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    op: &Scan,
) -> Result<Launch<Gpu<V>>> {
    let rows = bound.count() / op.len;
    let by_blocks = op.len >= BLOCK_ROW && rows * op.len.div_ceil(BLOCK_PART) <= MANY_PARTS;
    let part =
        if by_blocks { BLOCK_PART } else { op.len.div_ceil(PARTS).clamp(MIN_PART, MAX_PART) };
    let parts = op.len.div_ceil(part);
    let mut plan = Plan::default();
    bound.inputs(&mut plan);
    plan.words(&[op.len as u32, op.inner as u32, part as u32, parts as u32]);
    plan.words(&[op.exclusive.into(), op.reverse.into(), by_blocks.into()]);
    let domain = bound.signed(op.domain)?;
    let blocks = if by_blocks { rows * parts } else { (rows * parts).div_ceil(THREADS) };
    bound.launch(&format!("scan_{}", suffix(domain)), blocks, 0, &plan)
}

/// `top` in kernels/rows.h.
pub(super) fn build_top<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    op: &TopK,
) -> Result<Launch<Gpu<V>>> {
    let (rows, blocks) = (bound.count() / op.k, op.len.div_ceil(THREADS));
    let mut plan = Plan::default();
    bound.inputs(&mut plan);
    plan.words(&[op.len as u32, op.k as u32, op.largest.into(), op.places.into(), blocks as u32]);
    let domain = bound.op.inputs[0].element.domain();
    bound.launch(&format!("top_{}", suffix(domain)), rows * blocks, 0, &plan)
}

/// `suppress` in kernels/suppress.h.
pub(super) fn build_suppress<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    op: &Suppress,
) -> Result<Launch<Gpu<V>>> {
    let mut plan = Plan::default();
    bound.inputs(&mut plan);
    if bound.op.inputs.len() < 5 {
        plan.input(0, Element::I64); // there are no lists so far
    }
    plan.words(&[op.count as u32, op.classes as u32, op.most as u32]);
    plan.words(&[op.first as u32, op.len as u32, op.centred.into(), at_a_time(op.len)]);
    bound.launch("suppress", bound.count() / (op.most + 1), 0, &plan)
}

/// Places that a block takes at a time: a power of two.
fn at_a_time(len: usize) -> u32 {
    len.next_power_of_two().min(THREADS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_places_have_several_threads_each() {
        assert_eq!([1, 2, 3, 16, 255, 256, 768].map(at_a_time), [1, 2, 4, 16, 256, 256, 256]);
    }
}
