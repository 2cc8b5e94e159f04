//! Moves of what another move alone makes become one.

use super::readers::Readers;
use crate::model::ports::Port;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Element, Kind, Move, NOWHERE, TensorOp, View};
use std::collections::HashMap;
use std::sync::Arc;

/// `steps` with moves of integers of 8 bits made one with those that they alone read.
pub(in crate::tensors) fn join(steps: Vec<TensorStep>, outputs: &[Port]) -> Vec<TensorStep> {
    if !steps.iter().any(|step| step.op.output.element == Element::I8) {
        return steps;
    }
    let readers = Readers::of(&steps, outputs);
    let mut kept: Vec<Option<TensorStep>> = Vec::with_capacity(steps.len());
    let mut makers: HashMap<usize, usize> = HashMap::new();
    for step in steps {
        let made = step.reads.first().and_then(|storage| {
            let at = *makers.get(storage).filter(|_| readers.all(*storage).len() == 1)?;
            Some((at, join_two(kept[at].as_ref()?, &step)?))
        });
        let step = match made {
            Some((at, both)) => {
                kept[at] = None;
                both
            }
            None => step,
        };
        makers.insert(step.writes, kept.len());
        kept.push(Some(step));
    }
    kept.into_iter().flatten().collect()
}

/// `reader` of what `maker` reads.
fn join_two(maker: &TensorStep, reader: &TensorStep) -> Option<TensorStep> {
    let (Kind::Move(first), Kind::Move(second)) = (&maker.op.kind, &reader.op.kind) else {
        return None;
    };
    let between = &maker.op.output;
    let has_axes = first.tables.iter().map(Vec::len).eq(between.dims.iter().copied());
    let seen_alike = reader.op.inputs[0] == *between && first.tables.len() == second.tables.len();
    let is_whole = !first.tables.iter().flatten().any(|&at| at == NOWHERE);
    if between.element != Element::I8 || !has_axes || !seen_alike || !is_whole {
        return None;
    }
    let strides = View::dense(&between.dims).strides;
    let axes = first.tables.iter().zip(&second.tables).zip(strides);
    let tables = axes.map(|((first, second), stride)| along(first, second, stride));
    let tables = tables.collect::<Option<Vec<_>>>()?;
    let op = TensorOp {
        kind: Kind::Move(Move { tables, fill: second.fill }),
        inputs: maker.op.inputs.clone(),
        output: reader.op.output.clone(),
    };
    op.check().ok()?;
    let reads = maker.reads.clone();
    Some(TensorStep { name: reader.name.clone(), op: Arc::new(op), reads, writes: reader.writes })
}

/// Table of an axis of both moves, if the second one takes it from that axis alone.
fn along(first: &[usize], second: &[usize], stride: usize) -> Option<Vec<usize>> {
    let place = |&at: &usize| match at {
        NOWHERE => Some(NOWHERE),
        at if at.is_multiple_of(stride) => first.get(at.checked_div(stride)?).copied(),
        _ => None,
    };
    second.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::{Array, Scalar, Spec};

    fn step(tables: Vec<Vec<usize>>, dims: &[usize], reads: usize) -> TensorStep {
        let spec = |dims: Vec<usize>| Spec { element: Element::I8, dims };
        let output = spec(tables.iter().map(Vec::len).collect());
        let kind = Kind::Move(Move { tables, fill: Scalar::Whole(-9) });
        let op = TensorOp { kind, inputs: vec![spec(dims.to_vec())], output };
        op.check().unwrap();
        let name = String::new();
        TensorStep { name, op: Arc::new(op), reads: vec![reads], writes: reads + 1 }
    }

    fn output(step: &TensorStep) -> Port {
        Port::new("", step.op.output.clone(), step.writes)
    }

    fn run(step: &TensorStep, from: &Array) -> Array {
        let all = 0..step.op.output.elements();
        step.op.compute(&[from.values()], all, &|| false).unwrap().unwrap()
    }

    /// Rows become columns, and columns have a place before and two behind them.
    fn turned_and_padded() -> [TensorStep; 2] {
        let turn = step(vec![vec![0, 1, 2], vec![0, 3]], &[2, 3], 0);
        let pad = step(vec![vec![0, 2, 4], vec![NOWHERE, 0, 1, NOWHERE, NOWHERE]], &[3, 2], 1);
        [turn, pad]
    }

    #[test]
    fn a_turn_and_padding_are_one_move() {
        let steps = turned_and_padded();
        let one = join(steps.to_vec(), &[output(&steps[1])]);
        assert_eq!(one.len(), 1);
        assert_eq!((&one[0].reads[..], one[0].writes), (&[0][..], 2));
        let from = Array::I8((1..=6).collect());
        assert_eq!(run(&one[0], &from), run(&steps[1], &run(&steps[0], &from)));
    }

    #[test]
    fn moves_that_others_read_or_that_cross_axes_stay() {
        let steps = turned_and_padded();
        let both = [output(&steps[0]), output(&steps[1])];
        assert_eq!(join(steps.to_vec(), &both), steps);
        let across = step(vec![vec![0, 3], vec![0, 1]], &[3, 2], 1);
        let steps = [steps[0].clone(), across];
        assert_eq!(join(steps.to_vec(), &[output(&steps[1])]), steps);
    }
}
