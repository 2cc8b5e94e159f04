//! Gather and scatter: movement of elements by indices.

use super::bound::{BoundTensors, suffix};
use super::movement::{element_bytes, rounds};
use super::plan::Plan;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::params::Divisor;
use reef_core::{Launch, Result};
use reef_op::tensor::{Gather, Scatter, Target, View};

/// Outputs of a block: `SCATTERED` in kernels/indexed.h.
const SCATTERED: usize = 1024;

/// `gather` in kernels/indexed.h.
pub(super) fn build_gather<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    op: &Gather,
) -> Result<Launch<Gpu<V>>> {
    let (rounds, blocks) = rounds(bound.count());
    let mut plan = Plan::default();
    bound.inputs(&mut plan);
    plan.words(&[element_bytes(bound), rounds as u32]);
    target(&op.target, &mut plan);
    bound.launch("gather", blocks, 0, &plan)
}

/// `scatter` in kernels/indexed.h.
pub(super) fn build_scatter<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    op: &Scatter,
) -> Result<Launch<Gpu<V>>> {
    let mut plan = Plan::default();
    bound.inputs(&mut plan);
    plan.words(&[op.kind as u32, bound.op.inputs[2].elements() as u32]);
    target(&op.target, &mut plan);
    let blocks = bound.count().div_ceil(SCATTERED);
    bound.launch(&format!("scatter_{}", suffix(op.domain)), blocks, 0, &plan)
}

/// `Target` in kernels/indexed.h.
fn target(target: &Target, plan: &mut Plan) {
    match target {
        Target::Along { dims, indices, axis } => {
            let dense = View::dense(dims).strides;
            let mut view = View { dims: indices.clone(), strides: dense.clone() };
            view.strides[*axis] = 0;
            let at = plan.len();
            plan.words(&[1, 0, dims[*axis] as u32, dense[*axis] as u32]);
            let view = plan.view(&view);
            plan.set(at + 1, view);
        }
        Target::Tuples { shared, sizes, inner, tuples, .. } => {
            let [by_inner, by_tuples] =
                [inner, tuples].map(|&size| Divisor::new(size.max(1) as u32).words());
            plan.words(&[0, by_inner[0], by_inner[1], *inner as u32]);
            plan.words(&[by_tuples[0], by_tuples[1], *tuples as u32, (*shared).into()]);
            plan.words(&[sizes.len() as u32]);
            sizes.iter().for_each(|&size| plan.words(&[size as u32]));
        }
    }
}
