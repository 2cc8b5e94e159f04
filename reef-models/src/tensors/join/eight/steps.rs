//! Steps with convolutions between numbers of 8 bits.

use super::formula::{bounds, with_less};
use super::parts::{Constants, Found, Joined, Parts};
use crate::model::ports::Port;
use crate::tensors::step::TensorStep;
use reef_op::Format;
use reef_op::tensor::{
    Array, Binary, Domain, Element, Formula, Kind, Map, Move, NOWHERE, Scalar, Spec, TensorOp,
    Term, View,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Constants of those convolutions among `steps` whose weights are integers of 8 bits times a scale
/// for each output. `known` gives values of constants.
pub(in crate::tensors) fn constants<'a>(
    steps: &[TensorStep],
    outputs: &[Port],
    known: &dyn Fn(usize) -> Option<&'a Array>,
) -> HashSet<Constants> {
    if !steps.iter().any(|step| bounds(step.op.output.element).is_some()) {
        return HashSet::new();
    }
    let parts = Parts::of(steps, outputs);
    let found = (0..steps.len()).filter_map(|last| parts.found(last));
    let of_integers = |found: &Found| {
        let (weights, bias, factors) = found.constants;
        let is_known = [bias, factors].iter().flatten().all(|storage| known(*storage).is_some());
        is_known && known(weights).is_some_and(|weights| are_integers(weights, found.eight.over[0]))
    };
    found.filter(of_integers).map(|found| found.constants).collect()
}

/// Largest distance of a quotient from an integer, which `Format::scale_of_all` keeps to.
const MAX_DISTANCE: f32 = 1.0 / 16384.0;

/// Returns whether the weights of each output are integers of 8 bits times their scale.
fn are_integers(weights: &Array, outputs: usize) -> bool {
    let weights = match weights {
        Array::F32(singles) => singles,
        Array::I32(integers) => return integers.iter().all(|weight| (-127..=127).contains(weight)),
        _ => return false,
    };
    let each = weights.len().checked_div(outputs).unwrap_or(0);
    weights.chunks(each.max(1)).all(|row| {
        let scale = Format::Int8.scale_of_all(row);
        row.iter().all(|weight| (weight / scale - (weight / scale).round()).abs() <= MAX_DISTANCE)
    })
}

/// `steps` with such convolutions of these constants joined, where `takes` takes that. Storages
/// from number `free` on are new.
pub(in crate::tensors) fn join(
    steps: &[TensorStep],
    outputs: &[Port],
    constants: &HashSet<Constants>,
    free: usize,
    takes: &dyn Fn(&TensorOp) -> bool,
) -> Vec<TensorStep> {
    if constants.is_empty() {
        return steps.to_vec();
    }
    let parts = Parts::of(steps, outputs);
    // Difference of the numbers of storages from those of the file.
    let mut stored: HashMap<usize, i16> = HashMap::new();
    let mut joined: HashMap<usize, Joined> = HashMap::new();
    for (last, step) in steps.iter().enumerate() {
        let found = parts.found(last).filter(|found| constants.contains(&found.constants));
        let one = found.and_then(|found| parts.joined(last, found, &stored));
        if let Some(one) = one.filter(|one| takes(&one.op)) {
            if one.more != 0 {
                stored.insert(step.writes, one.more);
            }
            joined.insert(last, one);
        }
    }
    let gone = parts.gone(&joined);
    let mut rewriter =
        Rewriter { steps: Vec::with_capacity(steps.len()), free, turned: HashMap::new() };
    for (k, step) in steps.iter().enumerate().filter(|(k, _)| !gone.contains(k)) {
        match joined.get(&k) {
            Some(one) => rewriter.write(step, one, steps),
            None => rewriter.steps.push(reading(step, &stored)),
        }
    }
    rewriter.steps
}

/// `step` as it reads numbers of storages, where `stored` has their difference from the file's.
fn reading(step: &TensorStep, stored: &HashMap<usize, i16>) -> TensorStep {
    let Kind::Map(map) = &step.op.kind else { return step.clone() };
    let more = |input: usize| stored.get(&step.reads[input]).copied();
    if (0..step.reads.len()).all(|input| more(input).is_none()) {
        return step.clone();
    }
    let mut op = TensorOp::clone(&step.op);
    let inputs = op.inputs.iter_mut().enumerate().filter(|(input, _)| more(*input).is_some());
    inputs.for_each(|(_, spec)| spec.element = Element::I8);
    op.kind = Kind::Map(Map { formula: with_less(&map.formula, &more), domain: map.domain });
    TensorStep { op: Arc::new(op), ..step.clone() }
}

/// Steps that are written anew.
struct Rewriter {
    steps: Vec<TensorStep>,
    /// Number of the next new storage.
    free: usize,
    /// Storages of images with channels last, by the storage and sizes that they were made of.
    turned: HashMap<(usize, [usize; 4]), usize>,
}

impl Rewriter {
    /// Adds a convolution that fills what `last` filled.
    fn write(&mut self, last: &TensorStep, one: &Joined, steps: &[TensorStep]) {
        let values = &steps[one.found.values];
        let (from, shape) = (values.reads[0], one.found.eight.shape);
        let [n, c, height, width] = shape;
        let image = self.turned.get(&(from, shape)).copied().unwrap_or_else(|| {
            let spec = Spec { element: Element::I8, dims: shape.to_vec() };
            let signed = if one.converts { self.signed(last, from, &spec) } else { from };
            let tables = turn(shape, [0, 2, 3, 1]);
            let made = self.moved(last, tables, (signed, &spec), None);
            self.turned.insert((from, shape), made);
            made
        });
        let image = if one.edges == [[0; 2]; 2] {
            image
        } else {
            let spec = Spec { element: Element::I8, dims: vec![n, height, width, c] };
            let tables = padded([n, height, width, c], one.edges);
            self.moved(last, tables, (image, &spec), Some(one.eight.zeros[0]))
        };
        let (weights, bias, factors) = one.found.constants;
        let reads = [image, weights].into_iter().chain(bias).chain(factors).collect();
        let made = self.storage();
        let op = Arc::new(one.op.clone());
        self.steps.push(TensorStep { name: last.name.clone(), op, reads, writes: made });
        let [outputs, down, right] = one.eight.over;
        let tables = turn([n, down, right, outputs], [0, 3, 1, 2]);
        self.steps.push(move_of(last, tables, None, (made, &one.op.output), last.writes));
    }

    fn storage(&mut self) -> usize {
        self.free += 1;
        self.free - 1
    }

    /// Adds a formula that makes numbers with a sign of such without one, and returns its storage.
    fn signed(&mut self, last: &TensorStep, from: usize, spec: &Spec) -> usize {
        let writes = self.storage();
        let half = Term::Scalar(Scalar::Whole(128));
        let formula = Formula(vec![Term::Input(0), half, Term::Binary(Binary::Sub, 0, 1)]);
        let op = TensorOp {
            kind: Kind::Map(Map { formula, domain: Domain::I64 }),
            inputs: vec![Spec { element: Element::U8, dims: spec.dims.clone() }],
            output: spec.clone(),
        };
        let (name, op, reads) = (last.name.clone(), Arc::new(op), vec![from]);
        self.steps.push(TensorStep { name, op, reads, writes });
        writes
    }

    /// Adds a move to a new storage, which it returns.
    fn moved(
        &mut self,
        last: &TensorStep,
        tables: Vec<Vec<usize>>,
        from: (usize, &Spec),
        fill: Option<i8>,
    ) -> usize {
        let writes = self.storage();
        self.steps.push(move_of(last, tables, fill, from, writes));
        writes
    }
}

/// A step that moves integers of 8 bits.
fn move_of(
    last: &TensorStep,
    tables: Vec<Vec<usize>>,
    fill: Option<i8>,
    from: (usize, &Spec),
    writes: usize,
) -> TensorStep {
    let output = Spec { element: Element::I8, dims: tables.iter().map(Vec::len).collect() };
    let kind = Kind::Move(Move { tables, fill: Scalar::Whole(fill.unwrap_or(0).into()) });
    let op = Arc::new(TensorOp { kind, inputs: vec![from.1.clone()], output });
    TensorStep { name: last.name.clone(), op, reads: vec![from.0], writes }
}

/// Tables of a move that gives axes of these sizes in this order.
fn turn(dims: [usize; 4], order: [usize; 4]) -> Vec<Vec<usize>> {
    let strides = View::dense(&dims).strides;
    order.iter().map(|&axis| (0..dims[axis]).map(|at| at * strides[axis]).collect()).collect()
}

/// Tables of a move that has places without an element around images, channels last.
fn padded(dims: [usize; 4], [rows, columns]: [[usize; 2]; 2]) -> Vec<Vec<usize>> {
    let mut tables = turn(dims, [0, 1, 2, 3]);
    for (table, [before, after]) in tables[1..3].iter_mut().zip([rows, columns]) {
        let nowhere = |count: usize| std::iter::repeat_n(NOWHERE, count);
        let own = std::mem::take(table);
        *table = nowhere(before).chain(own).chain(nowhere(after)).collect();
    }
    tables
}
