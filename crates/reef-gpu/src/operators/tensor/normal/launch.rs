//! The launch of a normalisation.

use super::pattern::Normal;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::operators::params::Params;
use crate::operators::tensor::bound::BoundTensors;
use crate::operators::tensor::launch::Grid;
use reef_core::{Launch, Result};
use reef_op::tensor::{Element, RowMap, Spec, TensorOp, View};

/// `NORMAL_THREADS` and `NORMAL_CHUNKS` in kernels/normal.h: threads of a block and chunks of a
/// thread at most.
const THREADS: usize = 256;
const CHUNKS: usize = 2;
/// Elements of a chunk, and bytes.
const CHUNK: usize = 4;
const CHUNK_BYTES: u64 = 16;
/// Threads of a row at least.
const MIN_LANES: usize = 32;

/// `Normal` in kernels/normal.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct NormalParams {
    input: u64,
    added: u64,
    gain: u64,
    shift: u64,
    output: u64,
    share: f64,
    rows: u32,
    width: u32,
    lanes: u32,
    centred: u32,
    epsilon: f32,
    halves: u32,
}

// SAFETY: `repr(C)`; fields of 8 bytes stand before six of 4.
unsafe impl Params for NormalParams {}

/// Returns whether [`build`] has a launch for `op`, which is `rows`, on storages that begin at
/// chunks.
pub(in crate::operators::tensor) fn takes(op: &TensorOp, rows: &RowMap) -> bool {
    let Some(normal) = Normal::of(rows) else { return false };
    let [all, row] = views(op, rows);
    let seen = |input: Option<usize>, view: &View| {
        input.is_none_or(|input| is_seen(&op.inputs[input], &op.output, view))
    };
    lanes(rows.width).is_some()
        && normal.x.iter().all(|&input| seen(input, &all))
        && [normal.gain, normal.shift].iter().all(|&input| seen(input, &row))
}

/// Views of all elements, and of those of one row by each row.
fn views(op: &TensorOp, rows: &RowMap) -> [View; 2] {
    let dims = vec![op.output.elements() / rows.width, rows.width];
    [[rows.width, 1], [0, 1]]
        .map(|strides| View { dims: dims.clone(), strides: strides.to_vec() }.merged())
}

/// The launch of `op` by the kernel for normalisations; `None` if it is none, or doesn't lie in
/// chunks.
pub(in crate::operators::tensor) fn build<V: Vendor>(
    bound: &BoundTensors<'_, V>,
    op: &RowMap,
) -> Option<Result<Launch<Gpu<V>>>> {
    let normal = Normal::of(op)?;
    let lanes = lanes(op.width)?;
    let rows = bound.count() / op.width;
    let [all, row] = views(&bound.op, op);
    let place = |input: Option<usize>, seen: &View| match input {
        None => Some(0),
        Some(input) => is_seen(&bound.op.inputs[input], &bound.op.output, seen)
            .then(|| bound.input(input))
            .filter(|address| address.is_multiple_of(CHUNK_BYTES)),
    };
    let params = NormalParams {
        input: place(normal.x[0], &all)?,
        added: place(normal.x[1], &all)?,
        gain: place(normal.gain, &row)?,
        shift: place(normal.shift, &row)?,
        output: Some(bound.output()).filter(|address| address.is_multiple_of(CHUNK_BYTES))?,
        share: 1.0 / op.width as f64,
        rows: rows as u32,
        width: op.width as u32,
        lanes: lanes.ilog2(),
        centred: normal.centred.into(),
        epsilon: normal.epsilon,
        halves: (bound.op.output.element == Element::F16).into(),
    };
    // A block has as many rows as leave no unit without one.
    let a_block = (rows / bound.units().max(1)).clamp(1, THREADS / lanes);
    let threads = (a_block * lanes) as u32;
    let grid = Grid { blocks: rows.div_ceil(a_block), threads, shared: 0 };
    Some(bound.launch_keeping("normalise_f32", grid, &params, []))
}

/// Threads of a row of `width` elements: a power of two. `None` if it isn't in chunks, or is too
/// long.
fn lanes(width: usize) -> Option<usize> {
    let lanes = (width / CHUNK).div_ceil(CHUNKS).next_power_of_two().max(MIN_LANES);
    (width.is_multiple_of(CHUNK) && lanes <= THREADS).then_some(lanes)
}

/// Returns whether all outputs see an input of singles like this.
fn is_seen(input: &Spec, output: &Spec, seen: &View) -> bool {
    let view = View::broadcast(&input.dims, &output.dims);
    input.element == Element::F32 && view.is_some_and(|view| view.merged() == *seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::buffer::Buffer;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use crate::operators::tensor::build;
    use reef_core::Device;
    use reef_op::tensor::{Binary, FoldKind, Kind, RowTerm, Scalar, TensorOp, Term, Unary};
    use reef_op::{Storage, TensorOperands};

    /// `x / √(mean square + 1) · gain` of rows.
    fn op(rows: usize, width: usize, gain: Vec<usize>) -> TensorOp {
        let element = RowTerm::Element;
        let real = |number| element(Term::Scalar(Scalar::Real(number)));
        let of = |kind, a, b| element(Term::Binary(kind, a, b));
        let terms = vec![
            element(Term::Input(0)),
            RowTerm::Fold(FoldKind::SumSquares, 0),
            real(width as f64),
            of(Binary::Div, 1, 2),
            real(1.0),
            of(Binary::Add, 3, 4),
            element(Term::Unary(Unary::Sqrt, 5)),
            of(Binary::Div, 0, 6),
            element(Term::Input(1)),
            of(Binary::Mul, 7, 8),
        ];
        let single = |dims| Spec { element: Element::F32, dims };
        let output = single(vec![rows, width]);
        let inputs = vec![output.clone(), single(gain)];
        TensorOp { kind: Kind::RowMap(RowMap { width, terms }), inputs, output }
    }

    /// The kernel, blocks, and threads of each, for `op` whose gain begins at `offset`.
    fn launched(op: &TensorOp, offset: usize) -> (String, u32, u32) {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let buffers: [Buffer<Fake>; 3] = [0; 3].map(|_| gpu.alloc(1 << 20).unwrap());
        let storage = |k: usize, offset| Storage { buffer: &buffers[k], offset };
        let inputs = vec![storage(0, 0), storage(1, offset)];
        let operands =
            TensorOperands { inputs, output: storage(2, 0), packed: false, scratch: None };
        let launches = build::build(&gpu, op, &operands).unwrap();
        let [launch] = &launches[..] else { panic!("{} launches", launches.len()) };
        (launch.kernel().name().into(), launch.blocks(), launch.block()[0])
    }

    #[test]
    fn a_normalisation_has_a_kernel_of_its_own() {
        let normal = |blocks, threads| ("normalise_f32".into(), blocks, threads);
        assert_eq!(launched(&op(4, 768, vec![768]), 0), normal(4, 128));
        assert_eq!(launched(&op(9, 96, vec![1, 96]), 0), normal(5, 64), "two rows for each unit");
        assert_eq!(launched(&op(99, 96, vec![96]), 16), normal(13, 256));
        assert_eq!(launched(&op(1, 2048, vec![1, 2048]), 0), normal(1, 256));
    }

    #[test]
    fn normalisation_outside_chunks_or_rows_is_interpreted() {
        let is_interpreted =
            |op: TensorOp, offset| assert_eq!(launched(&op, offset).0, "row_map_f32", "{op:?}");
        is_interpreted(op(4, 766, vec![766]), 0);
        is_interpreted(op(4, 768, vec![768]), 4);
        is_interpreted(op(4, 768, vec![4, 768]), 0);
        is_interpreted(op(4, 768, vec![4, 1]), 0);
    }

    #[test]
    fn parameters_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<NormalParams>(), 72);
    }
}
