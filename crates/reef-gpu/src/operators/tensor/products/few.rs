//! Products of matrices of which one has few rows: kernels/few.h.

use super::matrices::{Axes, Matrices};
use super::params::{FewParams, FewSideParams};
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::tensor::bound::{BoundTensors, THREADS};
use crate::operators::tensor::launch::Grid;
use crate::operators::tensor::plan::Plan;
use reef_core::{Launch, Result};
use reef_op::tensor::{Contract, Domain, Element};

/// Rows of the kernels: in kernels/tensor.cu one is made for each. A product takes the first that
/// has as many.
const ROWS: [usize; 4] = [1, 2, 4, 7];
/// Terms of a product at least: shorter sums are made faster by a thread for each output.
const MIN_TERMS: usize = 16;
/// Lines of the other matrix at least, unless sums have many terms.
const MIN_LINES: usize = 8;
const MANY_TERMS: usize = 256;
/// Terms of each thread, and at least where there are not enough blocks.
const THREAD_TERMS: usize = 8;
const MIN_THREAD_TERMS: usize = 4;
/// Blocks for each unit of the device, if sums have enough terms.
const BLOCKS: usize = 2;
/// Singles that memory gives at a time, and those of a warp.
const SECTOR: usize = 8;
const WARP: usize = 32;

/// A product with few rows, or few columns, and many lines on the other side.
#[derive(Debug)]
pub(super) struct FewRows {
    matrices: Matrices,
    summed: Axes,
    terms: usize,
    /// Numbers of the inputs that have the rows and the lines.
    inputs: [usize; 2],
}

impl FewRows {
    /// `None` if there is no kernel for it. AMD's GPUs have none.
    pub(super) fn of<V: Vendor>(bound: &BoundTensors<'_, V>, contract: &Contract) -> Option<Self> {
        let singles = bound.op.inputs.iter().all(|input| input.element == Element::F32);
        let has_kernels = bound.gpu().facts().wave == 32;
        (has_kernels && singles && contract.domain == Domain::F32).then(|| Self::new(contract))?
    }

    fn new(contract: &Contract) -> Option<Self> {
        let matrices = Matrices::few(&contract.kept, ROWS[ROWS.len() - 1])?;
        let terms = contract.summed[0].len();
        let sizes = [matrices.rows.len(), matrices.columns.len()];
        let long = terms >= MANY_TERMS || sizes.iter().any(|&size| size >= MIN_LINES);
        let columns_are_few = sizes[1] < sizes[0];
        let few = if columns_are_few { 1 - matrices.row_input } else { matrices.row_input };
        let summed = Axes::of(&contract.summed);
        let inputs = [few, 1 - few];
        (long && terms >= MIN_TERMS).then_some(Self { matrices, summed, terms, inputs })
    }

    /// The launch. `table` writes the places of terms to a plan, and says where.
    pub(super) fn launch<V: Vendor>(
        &self,
        bound: &BoundTensors<'_, V>,
        table: impl FnOnce(&Axes, &mut Plan) -> Result<u32>,
    ) -> Result<Launch<Gpu<V>>> {
        let mut plan = Plan::default();
        plan.words(&[0]); // so that no view is at 0
        let sides = self.inputs.map(|input| self.side(input, bound.input(input), &mut plan));
        let [rows, lines] = self.inputs.map(|input| self.matrices.lines_of(input).len());
        let width = self.width(bound.units());
        let columns = self.matrices.columns.len() as u32;
        let [row_step, line_step] =
            if self.inputs[0] == self.matrices.row_input { [columns, 1] } else { [1, columns] };
        let params = FewParams {
            sides,
            output: bound.output(),
            plan: 0,
            rows: rows as u32,
            lines: lines as u32,
            terms: self.terms as u32,
            table: table(&self.summed, &mut plan)?,
            tiles: lines.div_ceil(width) as u32,
            width: width.ilog2(),
            along: self.is_along().into(),
            row_step,
            line_step,
            batch_step: (rows * lines) as u32,
            element: bound.op.output.element as u32,
            unused: 0,
        };
        let grid = Grid { blocks: self.blocks(width), threads: THREADS as u32, shared: 0 };
        let most = ROWS.into_iter().find(|&most| most >= rows).unwrap_or(rows);
        let name = format!("contract_few_{most}");
        bound.launch_with(&name, grid, &plan, |plan| FewParams { plan, ..params })
    }

    /// One of the two matrices, which begins at `data`. Views of more than one axis go into `plan`.
    fn side(&self, input: usize, data: u64, plan: &mut Plan) -> FewSideParams {
        let (step, view) = plan.step_or_view(self.matrices.lines_of(input));
        let (batch_step, batch_view) = plan.step_or_view(&self.matrices.batches.view(input));
        let term_step = self.summed.view(input).step() as u32;
        FewSideParams { data, step, view, batch_step, batch_view, term_step, input: input as u32 }
    }

    /// Returns whether terms of a line adjoin, and lines don't.
    fn is_along(&self) -> bool {
        let lines = self.matrices.lines_of(self.inputs[1]).merged();
        self.summed.view(self.inputs[1]).step() == 1 && lines.step() != 1
    }

    /// Lines of a block, a power of two: so many that each thread has some terms, but fewer where
    /// units would have no block.
    fn width(&self, units: usize) -> usize {
        let lines = self.matrices.lines_of(self.inputs[1]).len();
        // Threads of a line: at least, where there are many blocks, and at most.
        let [least, usual, most] = if self.is_along() {
            [SECTOR, WARP, THREADS]
        } else {
            [1, THREADS / WARP, THREADS / SECTOR]
        };
        let wanted = (self.terms / THREAD_TERMS).clamp(least, usual);
        let mut width = (THREADS >> wanted.ilog2()).min(lines.next_power_of_two());
        while self.blocks(width) < BLOCKS * units
            && 2 * (THREADS / width) <= most
            && 2 * (THREADS / width) * MIN_THREAD_TERMS <= self.terms
        {
            width /= 2;
        }
        width
    }

    fn blocks(&self, width: usize) -> usize {
        let lines = self.matrices.lines_of(self.inputs[1]).len();
        self.matrices.batch() * lines.div_ceil(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use crate::operators::tensor::build::build;
    use reef_core::Device;
    use reef_op::tensor::{Kind, Spec, TensorOp, View};
    use reef_op::{Storage, TensorOperands};

    /// Batches of `rows` rows with `columns` columns, whose terms or which themselves adjoin.
    fn op([batches, rows, columns, terms]: [usize; 4], along: bool) -> TensorOp {
        let dims = [batches, rows, columns];
        let (column, term) = if along { (terms, 1) } else { (1, columns) };
        let kept = [
            View::new(&dims, &[rows * terms, terms, 0]),
            View::new(&dims, &[columns * terms, 0, column]),
        ];
        let summed = [View::new(&[terms], &[1]), View::new(&[terms], &[term])];
        let single = |dims: &[usize]| Spec { element: Element::F32, dims: dims.to_vec() };
        let inputs = vec![single(&[batches * rows * terms]), single(&[batches * columns * terms])];
        let kind = Kind::Contract(Contract { domain: Domain::F32, kept, summed });
        TensorOp { kind, inputs, output: single(&dims) }
    }

    /// The kernel of a device with four units.
    fn launched(op: &TensorOp) -> String {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let buffers = [0; 3].map(|_| gpu.alloc(1 << 20).unwrap());
        let storage = |k: usize| Storage { buffer: &buffers[k], offset: 0 };
        let inputs = vec![storage(0), storage(1)];
        let operands = TensorOperands { inputs, output: storage(2), packed: false, scratch: None };
        let launches = build(&gpu, op, &operands).unwrap();
        let [launch] = &launches[..] else { panic!("{} launches", launches.len()) };
        launch.kernel().name().into()
    }

    #[test]
    fn few_rows_and_few_columns_have_kernels_of_their_own() {
        let of = |rows, columns| launched(&op([1, rows, columns, 64], false));
        assert_eq!([1, 2, 3, 7].map(|rows| of(rows, 1000)), [1, 2, 4, 7].map(named));
        assert_eq!(of(1000, 5), named(7));
        assert_eq!(of(8, 1000), "contract_64x64");
    }

    fn named(rows: usize) -> String {
        format!("contract_few_{rows}")
    }

    #[test]
    fn short_sums_have_a_thread_for_each_output() {
        assert_eq!(launched(&op([1, 1, 1000, 15], false)), "contract_f32");
        assert_eq!(launched(&op([9, 1, 7, 64], true)), "contract_f32");
        assert_eq!(launched(&op([9, 1, 7, 256], true)), named(1));
    }

    fn few(sizes: [usize; 4], along: bool) -> FewRows {
        let Kind::Contract(contract) = op(sizes, along).kind else { panic!("it is a product") };
        FewRows::new(&contract).unwrap()
    }

    #[test]
    fn fewer_lines_of_a_block_leave_no_unit_without_one() {
        let width = |sizes, along| few(sizes, along).width(132);
        assert_eq!([[1, 1, 32_000, 512], [1, 1, 512, 512]].map(|s| width(s, false)), [32, 8]);
        assert_eq!([[1, 1, 32_000, 512], [1, 1, 512, 512]].map(|s| width(s, true)), [8, 2]);
        assert_eq!(width([32, 1, 900, 64], true), 32, "eight terms of each thread");
        assert_eq!(width([1, 1, 1, 16_384], true), 1);
        assert_eq!(width([1, 1, 100_000, 16], false), 128);
    }

    #[test]
    fn the_side_with_few_lines_is_that_of_the_rows() {
        let inputs = |sizes| few(sizes, true).inputs;
        assert_eq!([[2, 3, 40, 64], [2, 40, 3, 64]].map(inputs), [[0, 1], [1, 0]]);
    }
}
