//! Convolutions of each channel by itself, with the padding before and the bias behind them.

use super::padding::zeros_around;
use super::readers::Readers;
use crate::model::ports::Port;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{
    Binary, Contract, Depthwise, Domain, Element, Formula, Kind, Spec, TensorOp, Term, View,
};
use std::collections::HashMap;
use std::sync::Arc;

/// `steps` with padding and bias joined to such convolutions, where `takes` takes that.
pub(in crate::tensors) fn join(
    steps: &[TensorStep],
    outputs: &[Port],
    takes: &dyn Fn(&TensorOp) -> bool,
) -> Vec<TensorStep> {
    let readers = Readers::of(steps, outputs);
    let alone = |storage: usize| readers.all(storage).len() == 1;
    let mut kept: Vec<Option<TensorStep>> = Vec::with_capacity(steps.len());
    let mut makers: HashMap<usize, usize> = HashMap::new();
    for step in steps {
        let maker = |storage: &usize| {
            let at = *makers.get(storage).filter(|_| alone(*storage))?;
            Some((at, kept[at].as_ref()?))
        };
        let mut gone = None;
        let mut now = step.clone();
        if let Some(found) = convolution(step) {
            let padding = maker(&step.reads[0]).and_then(|(at, maker)| {
                Some((at, padded(step, &found, maker).filter(|joined| takes(&joined.op))?))
            });
            let bare = || with(step, found.clone(), step.reads.clone(), step.op.inputs.clone());
            if let Some((at, joined)) = padding {
                (gone, now) = (Some(at), joined);
            } else if let Some(joined) = bare().filter(|joined| takes(&joined.op)) {
                now = joined;
            }
        } else if let Some((at, joined)) = step.reads.iter().find_map(|storage| {
            let (at, maker) = maker(storage)?;
            Some((at, biased(maker, step).filter(|joined| takes(&joined.op))?))
        }) {
            (gone, now) = (Some(at), joined);
        }
        if let Some(at) = gone {
            kept[at] = None;
        }
        makers.insert(now.writes, kept.len());
        kept.push(Some(now));
    }
    kept.into_iter().flatten().collect()
}

/// The convolution without padding that a contraction is, as they are read from files.
fn convolution(step: &TensorStep) -> Option<Depthwise> {
    let Kind::Contract(contract) = &step.op.kind else { return None };
    let [x, w] = &step.op.inputs[..] else { return None };
    if [x, w].iter().any(|spec| spec.elements() == 0) {
        return None; // from here on products of sizes are small
    }
    let (&[n, c, height, width], &[filters, 1, rows, columns]) = (&x.dims[..], &w.dims[..]) else {
        return None;
    };
    let &[_, _, down, right] = &step.op.output.dims[..] else { return None };
    let &[.., line, column] = &contract.kept[0].strides[..] else { return None };
    let view =
        |dims: &[usize], strides: &[usize]| View { dims: dims.into(), strides: strides.into() };
    let (plane, taps, kept) = (height * width, rows * columns, [n, c, 1, down, right]);
    let expected = Contract {
        domain: Domain::F32,
        kept: [
            view(&kept, &[c * plane, plane, 0, line, column]),
            view(&kept, &[0, taps, taps, 0, 0]),
        ],
        summed: [
            view(&[1, rows, columns], &[plane, width, 1]),
            view(&[1, rows, columns], &[taps, columns, 1]),
        ],
    };
    let stride = [line.checked_div(width)?, column];
    let fits = filters == c && *contract == expected && stride[0] * width == line;
    fits.then_some(Depthwise {
        shape: [n, c, height, width],
        over: [down, right],
        size: [rows, columns],
        stride,
        before: [0; 2],
        last: [false; 2],
    })
}

/// The convolution that `step` is, of what `maker` pads with zeros.
fn padded(step: &TensorStep, found: &Depthwise, maker: &TensorStep) -> Option<TensorStep> {
    let [rows, columns] = zeros_around(&maker.op)?;
    let input = &maker.op.inputs[0];
    let &[n, c, height, width] = &input.dims[..] else { return None };
    let joined =
        Depthwise { shape: [n, c, height, width], before: [rows[0], columns[0]], ..found.clone() };
    let reads = vec![maker.reads[0], step.reads[1]];
    let inputs = vec![input.clone(), step.op.inputs[1].clone()];
    let same = maker.op.output.dims == step.op.inputs[0].dims;
    if same { with(step, joined, reads, inputs) } else { None }
}

/// The convolution of `maker` with the bias that `step` adds to each channel.
fn biased(maker: &TensorStep, step: &TensorStep) -> Option<TensorStep> {
    let (Kind::Depthwise(found), Kind::Map(map)) = (&maker.op.kind, &step.op.kind) else {
        return None;
    };
    let Formula(terms) = &map.formula;
    let sum = matches!(
        terms[..],
        [Term::Input(a), Term::Input(b), Term::Binary(Binary::Add, 0, 1) | Term::Binary(Binary::Add, 1, 0)] if a != b
    );
    let &[left, right] = &step.reads[..] else { return None };
    let (bias, of) = if left == maker.writes { (right, 1) } else { (left, 0) };
    let [_, c, ..] = found.shape;
    let spec = &step.op.inputs[of];
    let of_channels =
        spec.elements() == c && spec.dims.len().checked_sub(3).is_some_and(|at| spec.dims[at] == c);
    let fits = sum
        && of_channels
        && map.domain == Domain::F32
        && maker.op.inputs.len() == 2
        && step.op.output.dims == maker.op.output.dims;
    let reads = [&maker.reads[..], &[bias]].concat();
    let inputs = [&maker.op.inputs[..], std::slice::from_ref(spec)].concat();
    if fits { with(step, found.clone(), reads, inputs) } else { None }
}

/// `step` as a convolution of `reads`.
fn with(
    step: &TensorStep,
    found: Depthwise,
    reads: Vec<usize>,
    inputs: Vec<Spec>,
) -> Option<TensorStep> {
    let singles = inputs.iter().chain([&step.op.output]).all(|spec| spec.element == Element::F32);
    let op = TensorOp { kind: Kind::Depthwise(found), inputs, output: step.op.output.clone() };
    op.check().ok().filter(|()| singles)?;
    Some(TensorStep { name: step.name.clone(), op: Arc::new(op), reads, writes: step.writes })
}
