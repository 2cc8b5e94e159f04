//! Products of matrices as tiles on tensor cores: kernels/product.h.

use super::inputs::{Inputs, tiles};
use super::matrices::{Axes, Matrices};
use super::params::{AFTERS, AfterParams, ProductParams};
use super::sides::side;
use crate::code::kernel::Kernel;
use crate::driver::buffer::Buffer;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::element::tensor_core_family;
use crate::operators::params::Params;
use crate::operators::tensor::bound::{BoundTensors, KernelOp};
use crate::operators::tensor::launch::Grid;
use crate::operators::tensor::plan::Plan;
use crate::operators::tiles::common::MAX_SPLIT_TILES;
use crate::operators::tiles::slabs::{SLAB, Shape};
use crate::operators::tiles::tile::{Body, Plan as Cut, Tile};
use reef_core::{Error, Launch, Result};
use reef_op::Scratch;
use reef_op::tensor::{Contract, Domain, Element as Stored, Kind, TensorOp, View};

/// Terms of a slab.
const TERMS: usize = SLAB / size_of::<f32>();
/// Bytes at the start of the scratch memory that are zero between launches: a count for each tile
/// of a split sum. There are fewer tiles, as two parts of each are blocks.
///
/// As many as of convolutions, which use the same memory where numbers of 8 bits are convolved.
const COUNTS: usize = MAX_SPLIT_TILES * size_of::<u32>();
/// Minimum of rows and columns of a product whose sums are short, and terms of one that has few
/// rows.
pub(super) const MIN_SIDE: usize = 8;
const MANY_TERMS: usize = 128;
/// Rows of a product on warpgroups at least: with 197 ViT-B/16 takes 15 % less, with 128 BERT takes
/// 3 % more than with tiles of warps (H200, 2026-11-27).
const MIN_ROWS_OF_GROUPS: usize = 129;
/// Pairs of terms of one, whose blocks look at the guard once: about 20 µs of a block.
const MAX_TERMS_OF_GROUPS: usize = 4096;
/// Terms are counted in 31 bits.
const MAX_TERMS: usize = 1 << 31;

/// A product of matrices, and how it is cut.
#[derive(Debug)]
pub(super) struct Product {
    /// Inputs that are halves are seen by pairs.
    matrices: Matrices,
    summed: Axes,
    /// Pairs of them, if both inputs are halves.
    terms: usize,
    inputs: Inputs,
    cut: Cut,
    /// Part of its kernels' names.
    family: &'static str,
}

impl Product {
    /// `None` if `op` has no sums of products; or if tensor cores are not asked for, aren't there,
    /// or don't fit.
    pub(super) fn of<V: Vendor>(gpu: &Gpu<V>, op: &KernelOp<'_>) -> Option<Self> {
        let (family, contract) = (tensor_core_family(gpu)?, contract_of(op)?);
        let matrices = Matrices::of(&contract.kept, MIN_SIDE).or_else(|| {
            let many = contract.summed[0].len() >= MANY_TERMS;
            Matrices::of(&contract.kept, 1).filter(|_| many)
        })?;
        let sides = [matrices.row_input, 1 - matrices.row_input];
        let inputs = Inputs::of(sides.map(|input| op.inputs[input].element), op.is_packed, family)?;
        let stored = matches!(op.output.element, Stored::F32 | Stored::F16);
        let terms = contract.summed[0].len();
        let most = matrices.rows.len().max(matrices.columns.len());
        if contract.domain != Domain::F32
            || !stored
            || !(1..MAX_TERMS).contains(&terms)
            || most < if terms < MANY_TERMS { MIN_SIDE } else { 2 }
        {
            return None;
        }
        let summed = Axes::of(&contract.summed);
        let (matrices, summed) = match inputs {
            Inputs::Singles | Inputs::Rounded => (matrices, summed),
            Inputs::Narrow => (matrices.by_pairs([false, true])?, summed),
            Inputs::Pairs => (matrices.by_pairs([true, true])?, summed.pairs()?),
        };
        if inputs != Inputs::Singles && !are_whole(&matrices, &summed) {
            return None;
        }
        let terms = summed.view(0).len();
        let cut = cut(gpu, inputs, &matrices, matrices.columns.len(), terms);
        Some(Self { matrices, summed, terms, inputs, cut, family })
    }

    /// The tile that several products, whose other sizes are the same, have in one launch; `None`
    /// if they differ, or are better off with split sums.
    pub(super) fn common_tile<V: Vendor>(gpu: &Gpu<V>, all: &[Self]) -> Option<Tile> {
        let Self { matrices, terms, inputs, .. } = all.first()?;
        let size = |of: &Self| (of.matrices.batch(), of.matrices.rows.len(), of.terms, of.inputs);
        let columns = all.iter().map(|of| of.matrices.columns.len()).sum();
        let cut = cut(gpu, *inputs, matrices, columns, *terms);
        (all.iter().all(|of| size(of) == size(&all[0])) && cut.splits == 1).then_some(cut.tile)
    }

    /// The product in whole tiles.
    pub(super) fn in_whole_tiles(self, tile: Tile) -> Self {
        Self { cut: Cut { tile, splits: 1 }, ..self }
    }

    /// Tiles of columns, of rows, and of all batches.
    fn tiles(&self) -> [usize; 3] {
        let across = self.matrices.columns.len().div_ceil(self.cut.tile.outputs);
        let down = self.matrices.rows.len().div_ceil(self.cut.tile.pixels);
        [across, down, across * down * self.matrices.batch()]
    }

    /// Counts, and the sums of all parts.
    pub(super) fn scratch(&self) -> Scratch {
        let Cut { tile, splits } = self.cut;
        let [_, _, tiles] = self.tiles();
        let partials = tiles * splits * tile.pixels * tile.outputs * size_of::<f32>();
        match splits {
            1 => Scratch::default(),
            _ => Scratch { zeroed: COUNTS, bytes: COUNTS + partials },
        }
    }

    /// The launch, with what becomes of each sum.
    pub(super) fn launch<V: Vendor>(
        &self,
        bound: &BoundTensors<'_, V>,
        after: [AfterParams; AFTERS],
        table: impl FnOnce(&mut Plan) -> Result<u32>,
    ) -> Result<Launch<Gpu<V>>> {
        let mut plan = Plan::default();
        plan.words(&[0]); // so that no view is at 0
        let params = self.params(bound, after, table, &mut plan)?;
        let name = self
            .kernel("product", &params)
            .ok_or_else(|| bound.refused("halves that begin anywhere"))?;
        let words = bound.words(&plan)?;
        let params = params.with_plan(words.address());
        self.launch_of(bound, &name, self.blocks(), &params, [words])
    }

    /// The launch of `blocks` blocks of its tile by kernel `name`, which keeps `more`.
    pub(super) fn launch_of<V: Vendor, P: Params>(
        &self,
        bound: &BoundTensors<'_, V>,
        name: &str,
        blocks: usize,
        params: &P,
        more: impl IntoIterator<Item = Buffer<V>>,
    ) -> Result<Launch<Gpu<V>>> {
        let builds = match self.cut.tile.body {
            Body::Groups | Body::ProductGroups => bound.gpu().found_groups()?,
            _ => bound.gpu().tensor()?,
        };
        let grid = self.grid(blocks);
        let kernel = Kernel::preemptible(builds, name, grid.shared as u32, &params.words())?;
        bound.launch_kernel(kernel, grid, more)
    }

    /// The kernel's parameters, except for the address of the plan.
    pub(super) fn params<V: Vendor>(
        &self,
        bound: &BoundTensors<'_, V>,
        after: [AfterParams; AFTERS],
        table: impl FnOnce(&mut Plan) -> Result<u32>,
        plan: &mut Plan,
    ) -> Result<ProductParams> {
        let Cut { splits, .. } = self.cut;
        let [across, down, tiles] = self.tiles();
        let need = self.scratch();
        if splits > 1 && tiles * size_of::<u32>() > COUNTS {
            let most = COUNTS / size_of::<u32>();
            return Err(Error::invalid(
                "split sums",
                format!("must have at most {most} tiles, got {tiles}"),
            ));
        }
        let memory = bound.scratch(need.bytes)?;
        let inputs = [self.matrices.row_input, 1 - self.matrices.row_input];
        let sides =
            inputs.map(|input| side(&self.matrices, &self.summed, input, bound.input(input), plan));
        let table = table(plan)?;
        let [(output_batch, output_batch_view), (output_row, output_row_view)] =
            self.matrices.outputs.each_ref().map(|view| plan.step_or_view(view));
        let columns = self.matrices.columns.len();
        let aligned =
            |after: &AfterParams| after.column_step <= 1 && after.operand.is_multiple_of(16);
        let fours = columns.is_multiple_of(4)
            && bound.output().is_multiple_of(16)
            && after.iter().all(aligned)
            && after.iter().all(|after| after.row_step.is_multiple_of(4) || after.column_step == 0);
        Ok(ProductParams {
            sides,
            after,
            output: bound.output(),
            partials: memory + COUNTS as u64,
            arrivals: memory,
            plan: 0,
            rows: self.matrices.rows.len() as u32,
            columns: columns as u32,
            terms: self.terms as u32,
            table,
            across: across as u32,
            down: down as u32,
            slabs: self.terms.div_ceil(self.cut.tile.body.slab() / size_of::<f32>()) as u32,
            splits: splits as u32,
            fours: fours.into(),
            output_row,
            output_row_view,
            output_batch,
            output_batch_view,
            halves: (bound.op.output.element == Stored::F16).into(),
        })
    }

    pub(super) fn blocks(&self) -> usize {
        self.tiles()[2] * self.cut.splits
    }

    /// Grid of this number of blocks of its tile.
    fn grid(&self, blocks: usize) -> Grid {
        let Tile { threads, .. } = self.cut.tile;
        Grid { blocks, threads, shared: self.cut.tile.shared() as usize }
    }

    /// The name of a kernel for its tile; `None` if there is none for halves that don't lie in
    /// chunks.
    pub(super) fn kernel(&self, what: &str, params: &ProductParams) -> Option<String> {
        let (kind, family) = match (self.inputs, kind(params)) {
            (Inputs::Pairs, "along") if self.is_on_groups() => ("groups", self.family),
            (Inputs::Singles, kind) => (kind, self.family),
            (_, ANY | ACROSS) => return None,
            (Inputs::Rounded, _) => ("rounded", self.family),
            (Inputs::Narrow, _) => ("narrow", self.family),
            (Inputs::Pairs, kind) => (kind, "pairs"),
        };
        let Tile { pixels, outputs, .. } = self.cut.tile;
        Some(format!("{what}_{kind}_{family}_{pixels}x{outputs}"))
    }

    fn is_on_groups(&self) -> bool {
        self.cut.tile.body == Body::ProductGroups
    }

    pub(super) fn summed(&self) -> &Axes {
        &self.summed
    }

    /// Steps from row to row and from column to column of an operand that all outputs see as
    /// `view`.
    pub(super) fn steps(&self, view: &View) -> Option<[u32; 2]> {
        let columns = self.matrices.columns.len();
        let merged = view.merged();
        let [row, column] = match (&merged.dims[..], &merged.strides[..]) {
            ([], []) => [0, 0],
            ([_], [1]) => [columns, 1],
            ([all], [0]) if *all == view.len() => [0, 0],
            ([_, inner], [0, 1]) if *inner == columns => [0, 1],
            ([_, inner], [row, 0]) if *inner == columns => [*row, 0],
            _ => return None,
        };
        // Kernels find an operand's row by counting rows of all batches.
        (row == 0 || self.matrices.is_in_order()).then_some([row as u32, column as u32])
    }
}

/// The sums of products that `op` makes.
pub(super) fn contract_of(op: &TensorOp) -> Option<&Contract> {
    match &op.kind {
        Kind::Contract(contract) => Some(contract),
        Kind::Finished(finished) => Some(&finished.contract),
        _ => None,
    }
}

/// Tile and parts of sums for these numbers of columns and terms.
fn cut<V: Vendor>(
    gpu: &Gpu<V>,
    inputs: Inputs,
    matrices: &Matrices,
    columns: usize,
    terms: usize,
) -> Cut {
    let (batch, rows) = (matrices.batch(), matrices.rows.len());
    let pays = batch == 1 && rows >= MIN_ROWS_OF_GROUPS && terms <= MAX_TERMS_OF_GROUPS;
    let on_groups = inputs == Inputs::Pairs && pays && gpu.groups().is_some();
    // Rows of each batch fill their own tiles, of which those of warps have 32 or 64.
    let pixels = if on_groups { rows } else { batch * rows.next_multiple_of(64) };
    let shape = Shape { pixels, outputs: columns, slabs: terms.div_ceil(TERMS) };
    Cut::new(tiles(inputs, on_groups), &shape, gpu.facts())
}

/// Name of the product's kernel: if all places are known at the beginning, copies are little more
/// than their instructions.
pub(super) fn kind(params: &ProductParams) -> &'static str {
    let [rows, columns] = &params.sides;
    match columns.along {
        _ if [rows.along, rows.wide, columns.wide] != [1; 3] || params.table != 0 => ANY,
        1 => "along",
        _ => ACROSS,
    }
}

/// Returns whether terms lie side by side in both inputs, in chunks.
fn are_whole(matrices: &Matrices, summed: &Axes) -> bool {
    let mut plan = Plan::default();
    plan.words(&[0]);
    let mut is = |input| {
        let side = side(matrices, summed, input, 0, &mut plan);
        (side.along, side.wide) == (1, 1)
    };
    summed.0.len() == 1 && is(0) && is(1)
}

/// The kind that takes all products, and that of rows and columns that lie in different ways.
pub(super) const ANY: &str = "any";
const ACROSS: &str = "across";
