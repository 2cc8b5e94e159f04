//! Operations on whole rows: scan and top.

use super::bound::{BoundTensors, THREADS, suffix};
use super::plan::Plan;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use reef_core::{Launch, Result};
use reef_op::tensor::{Domain, Scan, TopK};

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
    let domain = match bound.op.inputs[0].element.domain() {
        Domain::F32 => Domain::F64,
        other => other,
    };
    bound.launch(&format!("top_{}", suffix(domain)), rows * blocks, 0, &plan)
}
