//! One operation of each kind: what its blocks write, and that stopped ones write nothing.

use super::*;
use crate::kernel::{Block, Outcome, RUN};
use crate::kernels::blocks::stop_token::stop_at_poll;
use crate::memory::buffer::Buffer;
use reef_core::Args;
use reef_op::tensor::{
    Array, Binary, Concat, Contract, Domain, Element, Fold, FoldKind, Formula, Gather, Half, Kind,
    Map, Move, Scalar, Scan, Scatter, ScatterKind, Spec, Suppress, Target, Term, TopK, Unary, View,
};
use std::sync::atomic::AtomicU8;

mod attention;
mod joined;

const ROWS: usize = 96;
const COLUMNS: usize = 80;

fn spec(element: Element, dims: &[usize]) -> Spec {
    Spec { element, dims: dims.to_vec() }
}

/// One of each kind, over a matrix, with its other inputs.
fn operations() -> Vec<TensorOp> {
    let matrix = spec(Element::F32, &[ROWS, COLUMNS]);
    let turned = spec(Element::F32, &[COLUMNS, ROWS]);
    let places = spec(Element::I64, &[ROWS, COLUMNS]);
    let domain = Domain::F32;
    let of = |kind, inputs: &[&Spec], output: &Spec| TensorOp {
        kind,
        inputs: inputs.iter().map(|&input| input.clone()).collect(),
        output: output.clone(),
    };
    let formula = Formula(vec![Term::Input(0), Term::Input(1), Term::Binary(Binary::Mul, 0, 1)]);
    let tables = vec![(0..COLUMNS).collect(), (0..ROWS).map(|row| row * COLUMNS).collect()];
    let fold = Fold {
        kind: FoldKind::Max,
        domain,
        kept: View::new(&[COLUMNS], &[1]),
        folded: View::new(&[ROWS], &[COLUMNS]),
    };
    let contract = Contract {
        domain,
        kept: [View::new(&[ROWS, ROWS], &[COLUMNS, 0]), View::new(&[ROWS, ROWS], &[0, 1])],
        summed: [View::new(&[COLUMNS], &[1]), View::new(&[COLUMNS], &[ROWS])],
    };
    let along = Target::Along { dims: matrix.dims.clone(), indices: places.dims.clone(), axis: 1 };
    let scatter = Scatter { target: along.clone(), kind: ScatterKind::Add, domain };
    let scan = Scan { len: COLUMNS, inner: 1, exclusive: false, reverse: true, domain };
    let top = TopK { len: COLUMNS, k: 7, largest: true, places: true };
    // Lists of some boxes of one batch, and what half of the others add to them.
    let (classes, most) = (ROWS, 20);
    let suppress = Suppress { count: COLUMNS, classes, most, first: 7, len: 40, centred: true };
    let lists = spec(Element::I64, &[1, ROWS, 1 + most]);
    let boxes = spec(Element::F32, &[1, COLUMNS, 4]);
    vec![
        of(
            Kind::Map(Map { formula, domain }),
            &[&matrix, &spec(Element::F16, &[COLUMNS])],
            &matrix,
        ),
        of(Kind::Move(Move { tables, fill: Scalar::Whole(0) }), &[&matrix], &turned),
        of(
            Kind::Concat(Concat { outer: ROWS, lens: vec![COLUMNS; 2] }),
            &[&matrix, &matrix],
            &spec(Element::F32, &[ROWS, 2 * COLUMNS]),
        ),
        of(Kind::Fold(fold), &[&matrix], &spec(Element::F32, &[COLUMNS])),
        of(Kind::Contract(contract), &[&matrix, &turned], &spec(Element::F32, &[ROWS, ROWS])),
        of(Kind::Gather(Gather { target: along }), &[&matrix, &places], &matrix),
        of(Kind::Scatter(scatter), &[&matrix, &places, &matrix], &matrix),
        of(Kind::Scan(scan), &[&matrix], &matrix),
        of(Kind::TopK(top), &[&matrix], &spec(Element::I64, &[ROWS, 7])),
        of(
            Kind::Suppress(suppress),
            &[&boxes, &matrix, &places, &spec(Element::F32, &[1]), &lists],
            &lists,
        ),
    ]
}

/// Numbers that differ, in and out of the range of indices.
fn values(spec: &Spec, seed: usize) -> Array {
    let number = |i: usize| ((i * 7919 + seed * 31) % 251) as i64 - 100;
    let numbers = (0..spec.elements()).map(number);
    match spec.element {
        Element::I64 => Array::I64(numbers.collect()),
        Element::F16 => Array::F16(numbers.map(|x| Half(0x3c00 + x as u16 % 64)).collect()),
        _ => Array::F32(numbers.map(|x| x as f32 / 8.0).collect()),
    }
}

fn stored(array: &Array) -> OperandMemory {
    let bytes = array.to_le_bytes();
    let buffer = Buffer::zeroed(bytes.len() + 64).unwrap();
    buffer.write(64, &bytes).unwrap();
    OperandMemory { buffer, offset: 64 }
}

/// Binds `op`, none of whose inputs is packed.
fn plain(
    op: &Arc<TensorOp>,
    inputs: &[OperandMemory],
    output: &OperandMemory,
) -> Result<(Kernel, u32)> {
    bind(op, &BoundOperands { inputs, output, packed: false }, 2)
}

fn content(place: &OperandMemory, spec: &Spec) -> Vec<u8> {
    let mut bytes = vec![0; spec.bytes()];
    place.buffer.read(64, &mut bytes).unwrap();
    bytes
}

fn run(kernel: &Kernel, index: u32) -> Outcome {
    let (stop, mut scratch) = (AtomicU8::new(RUN), Vec::new());
    let mut block = Block { index, unit: 0, stop: &stop, scratch: &mut scratch };
    kernel.run(&mut block, &Args::default())
}

/// Stops a block at its first, second, … poll of the stop word, until it gets through.
fn interrupt_everywhere(kernel: &Kernel, index: u32, output: &OperandMemory, op: &TensorOp) {
    for polls in 1.. {
        let before = content(output, &op.output);
        if stop_at_poll(polls, || run(kernel, index)) == Outcome::Done {
            assert!(polls > 1, "{} never polls", op.name());
            return;
        }
        assert_eq!(before, content(output, &op.output), "{}: a stopped block wrote", op.name());
    }
}

#[test]
fn blocks_stopped_anywhere_match_the_definition() {
    for op in operations() {
        let inputs: Vec<_> =
            op.inputs.iter().enumerate().map(|(k, spec)| values(spec, k)).collect();
        let read: Vec<_> = inputs.iter().map(Array::values).collect();
        let want = op.compute(&read, 0..op.output.elements(), &|| false).unwrap().unwrap();
        let places: Vec<_> = inputs.iter().map(stored).collect();
        let untouched = values(&op.output, 9);
        let (output, op) = (stored(&untouched), Arc::new(op));
        let (kernel, blocks) = plain(&op, &places, &output).unwrap();
        (0..blocks).for_each(|index| interrupt_everywhere(&kernel, index, &output, &op));
        assert_eq!(content(&output, &op.output), want.to_le_bytes(), "{}", op.name());
    }
}

/// Each block sees all updates, so that many blocks would take far longer than few.
#[test]
fn scatter_of_many_updates_has_few_blocks() {
    let (len, domain) = (1 << 16, Domain::F32);
    let numbers = spec(Element::F32, &[len]);
    let sizes = vec![len];
    let target = Target::Tuples { batches: 1, shared: false, sizes, inner: 1, tuples: len };
    let kind = Kind::Scatter(Scatter { target, kind: ScatterKind::Replace, domain });
    let inputs = vec![numbers.clone(), spec(Element::I64, &[len]), numbers.clone()];
    let op = Arc::new(TensorOp { kind, inputs, output: numbers });
    let given: Vec<_> = op.inputs.iter().map(|input| stored(&values(input, 1))).collect();
    let (_, blocks) = plain(&op, &given, &stored(&values(&op.output, 9))).unwrap();
    assert!(blocks <= 8, "{blocks} blocks");
}

#[test]
fn an_output_over_an_input_and_a_short_buffer_are_refused() {
    let op = Arc::new(operations().remove(7));
    let place = stored(&values(&op.output, 1));
    let said = plain(&op, std::slice::from_ref(&place), &place).unwrap_err().to_string();
    assert_eq!(said, "output: cannot overlap what is read");
    let short = OperandMemory { buffer: Buffer::zeroed(100).unwrap(), offset: 64 };
    assert!(plain(&op, &[place], &short).is_err());
}

/// Products of matrices.
fn products() -> Vec<TensorOp> {
    vec![
        // Several matrices, one of them for all.
        contract(&[3, 40, 50], [&[1440, 36, 0], &[1800, 0, 1]], &[36], [&[1], &[50]]),
        contract(&[3, 40, 50], [&[1440, 36, 0], &[0, 0, 1]], &[36], [&[1], &[50]]),
        // Both turned, and more terms than are packed at a time.
        contract(&[20, 33], [&[1, 0], &[0, 700]], &[700], [&[20], &[1]]),
        // A convolution: columns are pixels, of the first input.
        contract(&[5, 6, 7], [&[0, 9, 1], &[36, 0, 0]], &[4, 3, 3], [&[72, 9, 1], &[9, 3, 1]]),
        // The result is turned.
        contract(&[64, 16], [&[0, 24], &[24, 0]], &[24], [&[1], &[1]]),
    ]
}

/// Sums that are not products of matrices.
fn sums() -> Vec<TensorOp> {
    vec![
        // Channels of their own: lines of 7, 70 and 150 pixels.
        contract(&[5, 6, 7], [&[72, 9, 1], &[9, 0, 0]], &[3, 3], [&[9, 1], &[3, 1]]),
        contract(&[3, 4, 70], [&[9, 0, 0], &[432, 72, 1]], &[3, 3], [&[3, 1], &[72, 1]]),
        contract(&[2, 150], [&[200, 1], &[3, 0]], &[3], [&[20], &[1]]),
        // Every second pixel.
        contract(&[2, 30], [&[100, 2], &[3, 0]], &[3], [&[20], &[1]]),
        // A row times a matrix, and times one that is turned.
        contract(&[1, 90], [&[0, 0], &[0, 1]], &[70], [&[1], &[90]]),
        contract(&[1, 90], [&[0, 0], &[0, 130]], &[130], [&[1], &[1]]),
    ]
}

/// Sizes of the output, its strides in both inputs, what is summed, and its strides.
fn contract(
    dims: &[usize],
    kept: [&[usize]; 2],
    terms: &[usize],
    summed: [&[usize]; 2],
) -> TensorOp {
    let kept = kept.map(|strides| View::new(dims, strides));
    let summed = summed.map(|strides| View::new(terms, strides));
    let length = |k: usize| {
        let both = kept[k].then(&summed[k]);
        both.dims.iter().zip(&both.strides).map(|(size, stride)| (size - 1) * stride).sum::<usize>()
    };
    let inputs = [0, 1].map(|k| spec(Element::F32, &[length(k) + 1])).into();
    let kind = Kind::Contract(Contract { domain: Domain::F32, kept, summed });
    TensorOp { kind, inputs, output: spec(Element::F32, dims) }
}

#[test]
fn sums_of_products_are_those_of_the_definition() {
    let all = products().into_iter().map(|op| (op, true));
    for (op, matrices) in all.chain(sums().into_iter().map(|op| (op, false))) {
        op.check().unwrap();
        let [by_matrices, by_sums] = [Matrices::of(&op).is_some(), Sums::of(&op).is_some()];
        assert!(if matrices { by_matrices } else { !by_matrices && by_sums }, "{op:?}");
        agrees(op, 0.0); // numbers are such that sums are exact
    }
}

/// Formulas with each function that has vectors, over inputs that are broadcast in all ways.
fn formulas() -> Vec<TensorOp> {
    use Binary::{Add, Div, Equal, Less, LessOrEqual, Max, Min, Mul, Sub};
    use Unary::{Abs, Erf, Exp, Neg, Not, Sqrt, Tanh};
    let dims: [&[usize]; 5] = [&[7, 30, 11], &[11], &[30, 1], &[7, 1, 1], &[]];
    let inputs: Vec<Spec> = dims.map(|dims| spec(Element::F32, dims)).into();
    let op = |terms: Vec<Term>, output: &[usize]| {
        let kind = Kind::Map(Map { formula: Formula(terms), domain: Domain::F32 });
        TensorOp { kind, inputs: inputs.clone(), output: spec(Element::F32, output) }
    };
    let inputs_of = |n: usize| (0..n).map(Term::Input).collect::<Vec<_>>();
    let unary = [Abs, Neg, Not, Sqrt, Exp, Tanh, Erf].map(|function| {
        op(
            [inputs_of(2), vec![Term::Binary(Mul, 0, 1), Term::Unary(function, 2)]].concat(),
            dims[0],
        )
    });
    let binary = [Add, Sub, Mul, Div, Min, Max, Less, LessOrEqual, Equal];
    let binary = binary.map(|function| {
        let sums = [Term::Binary(Add, 0, 2), Term::Binary(Sub, 3, 4), Term::Binary(function, 5, 6)];
        op([inputs_of(5), sums.to_vec()].concat(), dims[0])
    });
    let scalar = Term::Scalar(Scalar::Real(0.25));
    let select = [scalar, Term::Binary(Less, 0, 1), Term::Select(3, 2, 1)];
    let others = [
        op([inputs_of(2), select.to_vec()].concat(), dims[0]),
        op(vec![Term::Input(1)], dims[0]),
        op(vec![Term::Input(0)], dims[0]),
        op(vec![scalar], dims[0]),
    ];
    unary.into_iter().chain(binary).chain(others).collect()
}

#[test]
fn formulas_by_vectors_are_those_of_the_definition() {
    for op in formulas() {
        op.check().unwrap();
        assert!(Vectors::of(&op).is_some(), "{op:?}");
        agrees(op, 4.0);
    }
}

#[test]
fn folds_by_vectors_are_those_of_the_definition() {
    for kind in [FoldKind::Sum, FoldKind::SumSquares, FoldKind::Max] {
        for len in [2, 63, 64, 200, 40_000] {
            let fold = Fold {
                kind,
                domain: Domain::F32,
                kept: View::new(&[3, 5], &[6 * len, len]),
                folded: View::new(&[len], &[1]),
            };
            let inputs = vec![spec(Element::F32, &[18 * len])];
            let op =
                TensorOp { kind: Kind::Fold(fold), inputs, output: spec(Element::F32, &[3, 5]) };
            op.check().unwrap();
            assert!(Rows::of(&op).is_some(), "{op:?}");
            agrees(op, 64.0);
        }
    }
}

/// Runs each block of an operation of singles, stopped at each of its polls first, and compares its
/// output with the definition. They may differ by `units` units in the last place; 0 means equal
/// bits.
fn agrees(op: TensorOp, units: f32) {
    agrees_by(op, units, plain);
}

/// Like [`agrees`], of the kernel that `bind` gives.
fn agrees_by(
    op: TensorOp,
    units: f32,
    bind: impl Fn(&Arc<TensorOp>, &[OperandMemory], &OperandMemory) -> Result<(Kernel, u32)>,
) {
    let inputs: Vec<_> = op.inputs.iter().enumerate().map(|(k, spec)| values(spec, k)).collect();
    let read: Vec<_> = inputs.iter().map(Array::values).collect();
    let want = op.compute(&read, 0..op.output.elements(), &|| false).unwrap().unwrap();
    let places: Vec<_> = inputs.iter().map(stored).collect();
    let (output, op) = (stored(&values(&op.output, 9)), Arc::new(op));
    let (kernel, blocks) = bind(&op, &places, &output).unwrap();
    (0..blocks).for_each(|index| interrupt_everywhere(&kernel, index, &output, &op));
    let Array::F32(want) = want else { panic!("singles") };
    let have = content(&output, &op.output);
    for (k, (have, &want)) in have.as_chunks::<4>().0.iter().zip(&want).enumerate() {
        let have = f32::from_le_bytes(*have);
        let near = (have - want).abs() <= units * (want.abs().next_up() - want.abs());
        let close = units > 0.0 && (near || have == want || have.is_nan() && want.is_nan());
        assert!(close || have.to_bits() == want.to_bits(), "{k}: {have} {want} {op:?}");
    }
}
