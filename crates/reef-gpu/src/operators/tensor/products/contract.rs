//! Sums of products.

use super::epilogue::{EpilogueStep, steps};
use super::few::FewRows;
use super::matrices::{Axes, Matrices};
use super::packed::packed;
use super::params::{AFTERS, AfterParams};
use super::tiled::Product;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::element::tensor_core_family;
use crate::operators::tensor::bound::{BoundTensors, KernelOp, THREADS, suffix};
use crate::operators::tensor::plan::Plan;
use reef_core::{Launch, Result};
use reef_op::Scratch;
use reef_op::tensor::{Contract, Domain, Kind, TensorOp};

/// Rows and columns of tiles, and their kernels.
const TILES: [(usize, &str); 2] = [(64, "contract_64x64"), (32, "contract_32x32")];
/// Minimum of rows and columns for which tiles pay.
const MIN_SIDE: usize = 8;
/// Tiles for each unit of the device from which large ones pay.
const LARGE: usize = 2;
/// Terms of a sum that have a table of their places, at most.
const MAX_TABLE: usize = 1 << 22;
/// Words of `Terms` and of `Matrices` in kernels/contract.h.
const TERMS_WORDS: u32 = 14;
const MATRICES_WORDS: usize = 9;

/// The scratch memory that [`build`] wants.
pub(in crate::operators::tensor) fn scratch<V: Vendor>(gpu: &Gpu<V>, op: &TensorOp) -> Scratch {
    let of = |op: &KernelOp<'_>| Product::of(gpu, op).map(|product| product.scratch());
    let packed = packed(gpu, op).and_then(|(_, op)| of(&op));
    of(&KernelOp::as_it_is(op)).unwrap_or_default().max(packed.unwrap_or_default())
}

pub(in crate::operators::tensor) fn build<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    contract: &Contract,
) -> Result<Launch<Gpu<V>>> {
    if let Some(product) = Product::of(bound.gpu(), &bound.op) {
        return on_tensor_cores(bound, &product, &[]);
    }
    let len = bound.len(&contract.summed[0])?;
    let matrices = Matrices::of(&contract.kept, MIN_SIDE)
        .filter(|matrices| contract.domain == Domain::F32 && matrices.is_in_order());
    if matrices.is_none()
        && let Some(few) = FewRows::of(bound, contract)
    {
        return few.launch(bound, |summed, plan| table(bound, summed, plan));
    }
    let mut plan = Plan::default();
    bound.inputs(&mut plan);
    plan.words(&[len, 0, 0, 0, 0, 0]);
    plan.words(&[0; MATRICES_WORDS]);
    let summed = Axes::of(&contract.summed);
    terms(bound, &summed, &mut plan)?;
    if let Some(matrices) = matrices {
        product(&matrices, &summed, &mut plan);
        let (kernel, tiles) = tiles(&matrices, bound.units());
        return bound.launch(kernel, tiles, 0, &plan);
    }
    let kept = Axes::of(&contract.kept);
    for input in 0..2 {
        let at = plan.view(&kept.view(input));
        plan.set(12 + input as u32, at);
    }
    let blocks = bound.count().div_ceil(THREADS);
    let domain = bound.signed(contract.domain)?;
    bound.launch(&format!("contract_{}", suffix(domain)), blocks, 0, &plan)
}

/// Returns whether [`build_finished`] has a launch.
pub(in crate::operators::tensor) fn finishes<V: Vendor>(gpu: &Gpu<V>, op: &TensorOp) -> bool {
    product_of(gpu, &KernelOp::as_it_is(op)).is_some()
}

/// Tensor cores alone have kernels with something behind the sum.
pub(in crate::operators::tensor) fn build_finished<V: Vendor>(
    bound: &BoundTensors<'_, V>,
) -> Result<Launch<Gpu<V>>> {
    let known = product_of(bound.gpu(), &bound.op);
    let (product, steps) = known.ok_or_else(|| bound.refused("a formula behind a sum"))?;
    on_tensor_cores(bound, &product, &steps)
}

/// Returns whether tensor cores round input `input` of `op`, which was checked, to halves before
/// anything else.
pub(in crate::operators::tensor) fn rounds<V: Vendor>(
    gpu: &Gpu<V>,
    op: &TensorOp,
    input: usize,
) -> bool {
    by_halves(gpu)
        && packed(gpu, op).is_some_and(|(packed, op)| {
            input < 2 && input != packed.input && product_of(gpu, &op).is_some()
        })
}

fn by_halves<V: Vendor>(gpu: &Gpu<V>) -> bool {
    tensor_core_family(gpu) == Some("f16")
}

/// Returns whether they have a kernel for `op`, which was checked.
pub(in crate::operators::tensor) fn takes<V: Vendor>(gpu: &Gpu<V>, op: &TensorOp) -> bool {
    product_when_packed(gpu, op).is_some()
}

/// As [`product_of`], of `op` on its packed input if it has such.
pub(super) fn product_when_packed<V: Vendor>(
    gpu: &Gpu<V>,
    op: &TensorOp,
) -> Option<(Product, Vec<EpilogueStep>)> {
    let seen = packed(gpu, op).map(|(_, seen)| seen);
    product_of(gpu, &seen.unwrap_or_else(|| KernelOp::as_it_is(op)))
}

/// `op`, which was checked, as a product on tensor cores, and what becomes of its sums; `None` if
/// it is none.
pub(super) fn product_of<V: Vendor>(
    gpu: &Gpu<V>,
    op: &KernelOp<'_>,
) -> Option<(Product, Vec<EpilogueStep>)> {
    let product = Product::of(gpu, op)?;
    let steps = match &op.kind {
        Kind::Finished(finished) => steps(&product, op, &finished.formula)?,
        _ => Vec::new(),
    };
    Some((product, steps))
}

fn on_tensor_cores<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    product: &Product,
    steps: &[EpilogueStep],
) -> Result<Launch<Gpu<V>>> {
    let after = afters(bound, steps);
    product.launch(bound, after, |plan| table(bound, product.summed(), plan))
}

/// The steps as the kernel is told.
pub(super) fn afters<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    steps: &[EpilogueStep],
) -> [AfterParams; AFTERS] {
    let mut after = [AfterParams::default(); AFTERS];
    for (step, params) in steps.iter().zip(&mut after) {
        *params = step.params(|number| bound.input(number));
    }
    after
}

/// The kernel for a device of this number of units, and its number of tiles: large ones if there
/// are enough of them.
fn tiles(matrices: &Matrices, units: usize) -> (&'static str, usize) {
    let count = |(size, name)| (name, matrices.tiles(size));
    let [large, small] = TILES.map(count);
    if large.1 >= LARGE * units { large } else { small }
}

/// Writes to the plan where terms lie: by a stride in each input, or by a table.
fn terms<V: Vendor>(bound: &BoundTensors<'_, V>, summed: &Axes, plan: &mut Plan) -> Result<()> {
    if let [] | [_] = *summed.0 {
        let steps = summed.0.first().map_or([0; 2], |(_, steps)| *steps);
        steps.iter().enumerate().for_each(|(k, &step)| plan.set(10 + k as u32, step as u32));
        return Ok(());
    }
    let at = table(bound, summed, plan)?;
    plan.set(9, at);
    Ok(())
}

/// Appends the places of terms in both inputs, in pairs, and says where they are; 0 if terms are
/// apart by a stride.
pub(super) fn table<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    summed: &Axes,
    plan: &mut Plan,
) -> Result<u32> {
    if let [] | [_] = *summed.0 {
        return Ok(0);
    }
    let views = [0, 1].map(|input| summed.view(input));
    let len = views[0].len();
    if len > MAX_TABLE {
        return Err(bound.refused(format!("sums of {len} terms")));
    }
    let at = plan.len();
    (0..len).for_each(|j| plan.words(&[views[0].offset(j) as u32, views[1].offset(j) as u32]));
    Ok(at)
}

/// `Matrices` in kernels/contract.h.
fn product(matrices: &Matrices, summed: &Axes, plan: &mut Plan) {
    let inputs = [matrices.row_input, 1 - matrices.row_input];
    let views = [
        matrices.rows.clone(),
        matrices.columns.clone(),
        matrices.batches.view(inputs[0]),
        matrices.batches.view(inputs[1]),
    ];
    let sizes = [matrices.rows.len() as u32, matrices.columns.len() as u32];
    let along = inputs
        .map(|input| u32::from(summed.0.last().is_some_and(|(_, strides)| strides[input] == 1)));
    let views = views.map(|view| plan.view(&view));
    let words = [&sizes[..], &[matrices.row_input as u32], &views, &along].concat();
    words.iter().zip(TERMS_WORDS..).for_each(|(&word, at)| plan.set(at, word));
}
