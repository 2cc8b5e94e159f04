//! Random operations of each kind.

use super::bench::{Case, agrees};
use super::depthwise::depthwise;
use super::eight::eight;
use super::rows::{normalisation, row_map};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef::op::Operators;
use reef::tensor::{
    Array, Binary, Concat, Contract, Domain, Element, Finished, Fold, FoldKind, Formula, Gather,
    Kind, Map, Move, NOWHERE, Scalar, Scan, Scatter, ScatterKind, Spec, Suppress, Target, TensorOp,
    Term, TopK, View,
};
use std::sync::Arc;

const ELEMENTS: [Element; 13] = {
    use Element::*;
    [F32, F16, BF16, F64, I64, I32, I16, I8, U64, U32, U16, U8, Bool]
};
/// Of each domain.
const DOMAINS: [(Domain, &[Element]); 4] = [
    (Domain::F32, &[Element::F32, Element::F16, Element::BF16]),
    (Domain::F64, &[Element::F64, Element::F32]),
    (Domain::I64, &[Element::I64, Element::I32, Element::U8, Element::Bool]),
    (Domain::U64, &[Element::U64, Element::U16]),
];

type Make = fn(&mut ChaCha8Rng) -> Case;

/// Runs `cases` random operations of each kind; every second one is preempted as well.
pub(crate) fn kinds_agree<D: Operators>(device: &D, cases: u64) {
    let kinds: [(&str, Make); 22] = [
        ("map", map),
        ("contract", contract),
        ("depthwise", depthwise),
        ("eight", eight),
        ("matrices", matrices),
        ("many matrices", many_matrices),
        ("long sums", long_sums),
        ("few rows", few_rows),
        ("finished", finished),
        ("finished few rows", finished_few_rows),
        ("fold", fold),
        ("row map", row_map),
        ("normalisation", normalisation),
        ("move", movement),
        ("concat", concat),
        ("gather", gather),
        ("scatter", scatter),
        ("many updates", many_updates),
        ("scan", scan),
        ("long scan", long_scan),
        ("top", top),
        ("suppress", suppress),
    ];
    for (name, make) in kinds {
        kind_agrees(device, name, make, cases);
    }
}

/// Runs `cases` random convolutions between numbers of 8 bits, some of which the device must have.
#[cfg(feature = "cuda")]
pub(crate) fn eights_agree<D: Operators>(device: &D, cases: u64) {
    assert!(kind_agrees(device, "eight", eight, cases) > 0, "the device has none of {cases}");
}

/// Runs random operations of one kind. Returns the number of those that the device has.
fn kind_agrees<D: Operators>(device: &D, name: &str, make: Make, cases: u64) -> u64 {
    let mut count = 0;
    for seed in 0..cases {
        println!("{name}, seed {seed}");
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let case = make(rng);
        let joined = matches!(
            case.op.kind,
            Kind::Finished(_) | Kind::RowMap(_) | Kind::Depthwise(_) | Kind::Eight(_)
        );
        if joined && !device.has_joined(&case.op) {
            continue;
        }
        agrees(device, &case, seed.is_multiple_of(2).then_some(rng));
        count += 1;
    }
    count
}

pub(super) fn pick<T: Copy>(rng: &mut ChaCha8Rng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())]
}

/// Small whole numbers and halves: sums and products of them are exact in all types of floats.
pub(super) fn array(rng: &mut ChaCha8Rng, spec: &Spec) -> Array {
    let least = if spec.element.name().starts_with(['u', 'b']) { 0 } else { -8 };
    let numbers = (0..spec.elements()).map(|_| f64::from(rng.random_range(least..9)) / 2.0);
    Array::from_f64(spec.element, numbers.collect::<Vec<_>>())
}

pub(super) fn case(
    rng: &mut ChaCha8Rng,
    kind: Kind,
    inputs: Vec<Spec>,
    output: Spec,
    tolerance: f64,
) -> Case {
    let arrays = inputs.iter().map(|spec| array(rng, spec)).collect();
    Case { op: Arc::new(TensorOp { kind, inputs, output }), inputs: arrays, tolerance }
}

/// In every third case some floats are NaN.
fn with_none(rng: &mut ChaCha8Rng, mut case: Case) -> Case {
    if rng.random_ratio(1, 3) {
        let specs = case.op.inputs.iter();
        let floats = specs.zip(&mut case.inputs).filter(|(spec, _)| spec.element.is_float());
        for (spec, array) in floats {
            let mut numbers = array.values().to_f64();
            for number in &mut numbers {
                if rng.random_ratio(1, 5) {
                    *number = f64::NAN;
                }
            }
            *array = Array::from_f64(spec.element, numbers);
        }
    }
    case
}

fn dims(rng: &mut ChaCha8Rng, rank: usize, most: usize) -> Vec<usize> {
    (0..rank).map(|_| rng.random_range(1..=most)).collect()
}

/// A formula of up to 20 terms over up to four inputs, which are broadcast.
fn map(rng: &mut ChaCha8Rng) -> Case {
    let (rank, arity) = (rng.random_range(0..5), rng.random_range(1..5));
    let output = Spec { element: pick(rng, &ELEMENTS), dims: dims(rng, rank, 9) };
    let input = |rng: &mut ChaCha8Rng| {
        let missing = rng.random_range(0..=rank);
        let size = |&size: &usize| if rng.random() { size } else { 1 };
        let dims = output.dims[missing..].iter().map(size).collect();
        Spec { element: pick(rng, &ELEMENTS), dims }
    };
    let inputs: Vec<_> = (0..arity).map(|_| input(rng)).collect();
    let mut formula = Formula((0..arity).map(Term::Input).collect());
    for _ in 0..rng.random_range(1..16) {
        let k = formula.0.len();
        let any = |rng: &mut ChaCha8Rng| rng.random_range(0..k);
        let function =
            pick(rng, &[Binary::Add, Binary::Sub, Binary::Min, Binary::Max, Binary::Less]);
        formula.push(match rng.random_range(0..6) {
            0 => Term::Scalar(Scalar::Real(rng.random_range(0..9).into())),
            1 => Term::Select(any(rng), any(rng), any(rng)),
            _ => Term::Binary(function, any(rng), any(rng)),
        });
    }
    let (domain, _) = pick(rng, &DOMAINS);
    case(rng, Kind::Map(Map { formula, domain }), inputs, output, 0.0)
}

/// A window that slides over one input, times the other: a convolution in one dimension, of any
/// domain.
fn contract(rng: &mut ChaCha8Rng) -> Case {
    let (domain, elements) = pick(rng, &DOMAINS);
    let [n, c, k, out, window] = [3, 4, 5, 40, 3].map(|most| rng.random_range(1..=most));
    let stride = rng.random_range(1..3);
    let len = (out - 1) * stride + window;
    let view =
        |dims: &[usize], strides: &[usize]| View { dims: dims.into(), strides: strides.into() };
    let kept = [view(&[n, k, out], &[c * len, 0, stride]), view(&[n, k, out], &[0, c * window, 0])];
    let summed = [view(&[c, window], &[len, 1]), view(&[c, window], &[window, 1])];
    let contract = Contract { domain, kept, summed };
    let inputs = vec![
        Spec { element: pick(rng, elements), dims: vec![n, c, len] },
        Spec { element: pick(rng, elements), dims: vec![k, c, window] },
    ];
    let output = Spec { element: pick(rng, elements), dims: vec![n, k, out] };
    case(rng, Kind::Contract(contract), inputs, output, 1e-6)
}

fn matrices(rng: &mut ChaCha8Rng) -> Case {
    let sizes = [2, 90, 140, 70].map(|most| rng.random_range(1..=most));
    products(rng, sizes)
}

/// So many that GPUs take large tiles.
fn many_matrices(rng: &mut ChaCha8Rng) -> Case {
    let len = rng.random_range(1..20);
    products(rng, [40, 65, 70, len])
}

/// Few sums of many terms each, so that GPUs split them.
fn long_sums(rng: &mut ChaCha8Rng) -> Case {
    let sizes = [2, 40, 40].map(|most| rng.random_range(1..=most));
    let len = 4 * rng.random_range(100..700);
    products(rng, [sizes[0], sizes[1], sizes[2], len])
}

/// Few rows or columns of single products, as a decoder's step has them: in batches on both sides,
/// and with terms that lie in one piece or head by head.
fn few_rows(rng: &mut ChaCha8Rng) -> Case {
    let (few, heads) = (pick(rng, &[1, 2, 3, 7]), pick(rng, &[1, 3]));
    let [n, lines, depth] = [2, 200, 400].map(|most| rng.random_range(1..=most));
    let (m, k) = if rng.random() { (few, lines) } else { (lines, few) };
    let (dims, len) = ([n, m, k], heads * depth);
    let at = |strides: [usize; 3]| View { dims: dims.into(), strides: strides.into() };
    let terms = |outer, inner| View { dims: vec![heads, depth], strides: vec![outer, inner] };
    let (a, terms_a) = if rng.random() {
        ([m * len, depth, 0], terms(m * depth, 1))
    } else {
        ([m * len, 1, 0], terms(m * depth, m))
    };
    let (b, terms_b) = if rng.random() {
        ([k * len, 0, 1], terms(k * depth, k))
    } else {
        ([k * len, 0, len], terms(depth, 1))
    };
    let single = |dims: Vec<usize>| Spec { element: Element::F32, dims };
    let (mut kept, mut summed) = ([at(a), at(b)], [terms_a, terms_b]);
    let mut inputs = vec![single(vec![n * m * len]), single(vec![n * k * len])];
    if rng.random() {
        kept.reverse();
        summed.reverse();
        inputs.reverse();
    }
    let contract = Contract { domain: Domain::F32, kept, summed };
    case(rng, Kind::Contract(contract), inputs, single(dims.into()), 0.0)
}

/// Products of matrices with what a layer has behind them: for each column, for each row, or for
/// all.
fn finished(rng: &mut ChaCha8Rng) -> Case {
    let sizes = [1, 90, 140, 300].map(|most| rng.random_range(1..=most));
    finished_products(rng, sizes)
}

/// Products of few rows whose results go through a formula.
fn finished_few_rows(rng: &mut ChaCha8Rng) -> Case {
    let rows = pick(rng, &[1, 2, 7]);
    let [k, len] = [140, 300].map(|most| rng.random_range(1..=most));
    finished_products(rng, [1, rows, k, len])
}

fn finished_products(rng: &mut ChaCha8Rng, sizes: [usize; 4]) -> Case {
    let Case { op, .. } = products(rng, sizes);
    let Kind::Contract(contract) = op.kind.clone() else { unreachable!("a product") };
    let single = |dims: Vec<usize>| Spec { element: Element::F32, dims };
    let mut inputs: Vec<_> = op.inputs.iter().map(|spec| single(spec.dims.clone())).collect();
    let mut terms = vec![Term::Input(0)];
    for input in 1..rng.random_range(2..4) {
        let [n, m, k] = op.output.dims[..] else { unreachable!("three axes") };
        inputs.push(single(match rng.random_range(0..4) {
            0 => vec![k],
            1 => vec![m, 1],
            2 => vec![1],
            _ => vec![n, m, k],
        }));
        let last = terms.len() - 1;
        terms.push(Term::Input(input));
        terms.push(Term::Binary(pick(rng, &[Binary::Add, Binary::Mul]), last, last + 1));
    }
    let last = terms.len() - 1;
    terms.push(Term::Scalar(Scalar::Whole(rng.random_range(-9..9))));
    terms.push(Term::Binary(pick(rng, &[Binary::Max, Binary::Sub, Binary::Min]), last, last + 1));
    let kind = Kind::Finished(Finished { contract, formula: Formula(terms) });
    case(rng, kind, inputs, op.output.clone(), 0.0)
}

/// Products of matrices of floats, transposed or not, in batches: what tiles compute.
fn products(rng: &mut ChaCha8Rng, [n, m, k, len]: [usize; 4]) -> Case {
    let dims = [n, m, k];
    let at = |strides: [usize; 3]| View { dims: dims.into(), strides: strides.into() };
    let along = |stride| View { dims: vec![len], strides: vec![stride] };
    let (a, step_a) = if rng.random() { ([m * len, len, 0], 1) } else { ([m * len, 1, 0], m) };
    let (b, step_b) = if rng.random() { ([0, 0, 1], k) } else { ([0, 0, len], 1) };
    let [left, right] = [m * n * len, k * len]
        .map(|size| Spec { element: pick(rng, DOMAINS[0].1), dims: vec![size] });
    let (kept, summed) = ([at(a), at(b)], [along(step_a), along(step_b)]);
    let contract = Contract { domain: Domain::F32, kept, summed };
    let output = Spec { element: Element::F32, dims: dims.into() };
    case(rng, Kind::Contract(contract), vec![left, right], output, 0.0)
}

/// A window of one input folded, with axes in any order.
fn fold(rng: &mut ChaCha8Rng) -> Case {
    let (domain, elements) = pick(rng, &DOMAINS);
    let [a, b, c] = [40, 7, 300].map(|most| rng.random_range(1..=most));
    let dense = View::dense(&[a, b, c]);
    let [kept, folded] = match rng.random_range(0..4) {
        0 => [vec![0], vec![1, 2]],
        1 => [vec![0, 2], vec![1]],
        2 => [vec![], vec![2, 0, 1]],
        _ => [vec![1, 0], vec![2]],
    }
    .map(|axes| dense.axes(&axes));
    let last = rng.random();
    let kind = match rng.random_range(0..8) {
        0 => FoldKind::Sum,
        1 => FoldKind::SumAbs,
        2 => FoldKind::SumSquares,
        3 if domain != Domain::F32 => FoldKind::Product,
        4 => FoldKind::Max,
        5 => FoldKind::Min,
        6 => FoldKind::ArgMax { last },
        _ => FoldKind::ArgMin { last },
    };
    let by_place = matches!(kind, FoldKind::ArgMax { .. } | FoldKind::ArgMin { .. });
    let input = Spec { element: pick(rng, elements), dims: vec![a, b, c] };
    let made = if by_place { Element::I64 } else { pick(rng, elements) };
    let output = Spec { element: made, dims: kept.dims.clone() };
    let made =
        case(rng, Kind::Fold(Fold { kind, domain, kept, folded }), vec![input], output, 1e-6);
    with_none(rng, made)
}

/// Elements of any type from anywhere, an axis at a time, or from nowhere.
fn movement(rng: &mut ChaCha8Rng) -> Case {
    let rank = rng.random_range(0..5);
    let input = Spec { element: pick(rng, &ELEMENTS), dims: dims(rng, rank, 8) };
    let strides = View::dense(&input.dims).strides;
    let mut table = |k: usize| {
        let place = |rng: &mut ChaCha8Rng| rng.random_range(0..input.dims[k]) * strides[k];
        let entry =
            |rng: &mut ChaCha8Rng| if rng.random_ratio(1, 9) { NOWHERE } else { place(rng) };
        (0..rng.random_range(1..12)).map(|_| entry(rng)).collect()
    };
    let tables: Vec<Vec<usize>> = (0..rank).map(&mut table).collect();
    let output = Spec { dims: tables.iter().map(Vec::len).collect(), ..input };
    let fill = Scalar::Real(rng.random_range(0..9).into());
    case(rng, Kind::Move(Move { tables, fill }), vec![input], output, 0.0)
}

fn concat(rng: &mut ChaCha8Rng) -> Case {
    let (element, outer) = (pick(rng, &ELEMENTS), rng.random_range(1..20));
    let lens: Vec<usize> = (0..rng.random_range(1..9)).map(|_| rng.random_range(0..50)).collect();
    let inputs = lens.iter().map(|&len| Spec { element, dims: vec![outer, len] }).collect();
    let output = Spec { element, dims: vec![outer, lens.iter().sum()] };
    case(rng, Kind::Concat(Concat { outer, lens }), inputs, output, 0.0)
}

/// Targets of indices: elements of the data, of the indices, and of what they point at.
fn target(rng: &mut ChaCha8Rng) -> (Target, [usize; 3]) {
    if rng.random() {
        let [rank, batches, inner, tuples] = [3, 3, 5, 90].map(|most| rng.random_range(1..=most));
        let (sizes, shared) = (dims(rng, rank, 6), rng.random());
        let data = sizes.iter().product::<usize>() * inner * batches;
        let rows = if shared { tuples } else { tuples * batches };
        let lens = [data, rows * rank, batches * tuples * inner];
        return (Target::Tuples { batches, shared, sizes, inner, tuples }, lens);
    }
    let rank = rng.random_range(1..4);
    let (dims, axis) = (dims(rng, rank, 9), rng.random_range(0..rank));
    let own = |(k, &size): (usize, &usize)| if k == axis { 13 } else { size.div_ceil(2) };
    let indices: Vec<usize> = dims.iter().enumerate().map(own).collect();
    let [data, pointed] = [&dims, &indices].map(|sizes| sizes.iter().product());
    (Target::Along { dims, indices, axis }, [data, pointed, pointed])
}

fn gather(rng: &mut ChaCha8Rng) -> Case {
    let (target, [data, indices, output]) = target(rng);
    let element = pick(rng, &ELEMENTS[..12]);
    let inputs = vec![
        Spec { element, dims: vec![data] },
        Spec { element: pick(rng, &[Element::I64, Element::I32]), dims: vec![indices] },
    ];
    let output = Spec { element, dims: vec![output] };
    case(rng, Kind::Gather(Gather { target }), inputs, output, 0.0)
}

fn scatter(rng: &mut ChaCha8Rng) -> Case {
    use ScatterKind::*;
    let (target, lens) = target(rng);
    scattered(rng, target, lens, &[Replace, Add, Multiply, Max, Min])
}

/// More updates than a GPU's block applies before its first preemption point, which are 4,096.
fn many_updates(rng: &mut ChaCha8Rng) -> Case {
    use ScatterKind::*;
    let (inner, rank) = (pick(rng, &[1, 3, 40]), rng.random_range(1..=3));
    let (sizes, tuples) = (dims(rng, rank, 6), rng.random_range(4_200..8_000) / inner + 1);
    let data = sizes.iter().product::<usize>() * inner;
    let target = Target::Tuples { batches: 1, shared: rng.random(), sizes, inner, tuples };
    let lens = [data, tuples * rank, tuples * inner];
    scattered(rng, target, lens, &[Replace, Add, Max, Min]) // products would be infinite or 0
}

fn scattered(
    rng: &mut ChaCha8Rng,
    target: Target,
    lens: [usize; 3],
    kinds: &[ScatterKind],
) -> Case {
    let [data, indices, updates] = lens;
    let (domain, elements) = pick(rng, &DOMAINS);
    let [of_data, of_updates] = [0, 1].map(|_| pick(rng, elements));
    let inputs = vec![
        Spec { element: of_data, dims: vec![data] },
        Spec { element: Element::I64, dims: vec![indices] },
        Spec { element: of_updates, dims: vec![updates] },
    ];
    let kind = pick(rng, kinds);
    let output = Spec { element: of_data, dims: vec![data] };
    let made = case(rng, Kind::Scatter(Scatter { target, kind, domain }), inputs, output, 0.0);
    with_none(rng, made)
}

fn scan(rng: &mut ChaCha8Rng) -> Case {
    // One row of several parts, or some rows.
    let most = if rng.random_ratio(1, 4) { [1, 12_000, 2] } else { [4, 900, 5] };
    let sizes = most.map(|most| rng.random_range(1..=most));
    scanned(rng, sizes)
}

/// Rows so long that a GPU's block has a preemption point before its part, from 32,768 elements on.
fn long_scan(rng: &mut ChaCha8Rng) -> Case {
    let [outer, inner] = [2, 2].map(|most| rng.random_range(1..=most));
    let len = rng.random_range(37_000..50_000);
    scanned(rng, [outer, len, inner])
}

fn scanned(rng: &mut ChaCha8Rng, [outer, len, inner]: [usize; 3]) -> Case {
    let (domain, elements) = pick(rng, &DOMAINS);
    let spec = Spec { element: pick(rng, elements), dims: vec![outer, len, inner] };
    let (exclusive, reverse) = (rng.random(), rng.random());
    let kind = Kind::Scan(Scan { len, inner, exclusive, reverse, domain });
    case(rng, kind, vec![spec.clone()], spec, 0.0)
}

fn top(rng: &mut ChaCha8Rng) -> Case {
    let [rows, len] = [5, 700].map(|most| rng.random_range(1..=most));
    let (k, largest, places) = (rng.random_range(1..=len), rng.random(), rng.random());
    let input = Spec { element: pick(rng, &ELEMENTS), dims: vec![rows, len] };
    let element = if places { Element::I64 } else { input.element };
    let output = Spec { element, dims: vec![rows, k] };
    let made = case(rng, Kind::TopK(TopK { len, k, largest, places }), vec![input], output, 0.0);
    with_none(rng, made)
}

/// Lists of boxes, and what some places of any order add to them. A GPU's block has a preemption
/// point before each 256th box of a list.
fn suppress(rng: &mut ChaCha8Rng) -> Case {
    let [batches, classes, count] = [2, 3, 700].map(|most| rng.random_range(1..=most));
    let (len, centred) = (rng.random_range(1..=count), rng.random());
    let first = rng.random_range(0..=count - len);
    let most = pick(rng, &[1, 20, 300, 800]);
    let kind = Kind::Suppress(Suppress { count, classes, most, first, len, centred });
    let spec = |element, dims: &[usize]| Spec { element, dims: dims.into() };
    let output = spec(Element::I64, &[batches, classes, 1 + most]);
    let mut inputs = vec![
        spec(Element::F32, &[batches, count, 4]),
        spec(Element::F32, &[batches, classes, count]),
        spec(Element::I64, &[batches, classes, count]),
        spec(Element::F32, &[1]),
    ];
    if rng.random() {
        inputs.push(output.clone());
    }
    let made = case(rng, kind, inputs, output, 0.0);
    let mut made = with_none(rng, made);
    // One behind the last means the last.
    let numbers = |rng: &mut ChaCha8Rng, len: usize| -> Vec<i64> {
        (0..len).map(|_| rng.random_range(-1..=count as i64)).collect()
    };
    made.inputs[2] = Array::I64(numbers(rng, batches * classes * count));
    made.inputs[3] = Array::F32(vec![pick(rng, &[0.0, 0.25, 0.5, 1.0, 1.0])]);
    if let Some(lists) = made.inputs.get_mut(4) {
        let mut all = numbers(rng, batches * classes * (1 + most));
        let lens = all.iter_mut().step_by(1 + most);
        lens.for_each(|len| *len = rng.random_range(-1..=most as i64));
        *lists = Array::I64(all);
    }
    made
}
