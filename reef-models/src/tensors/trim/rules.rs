//! Operations that make a part of their results, and parts of inputs that they read for it.

use super::cut::Cut;
use reef_op::tensor::{Contract, Fold, Kind, Map, Move, NOWHERE, Spec, TensorOp, View};

/// An operation that reads parts of its inputs.
#[derive(Debug, Clone)]
pub(super) struct Trimmed {
    pub(super) op: TensorOp,
    /// The part of each input, if it is one.
    pub(super) inputs: Vec<Option<Cut>>,
    /// Operation of whole inputs, if there is need for that.
    pub(super) of_whole: Option<TensorOp>,
}

/// `op` with `cut` of its result; `None` if it is not known how to make a part.
pub(super) fn of_result(op: &TensorOp, cut: &Cut) -> Option<Trimmed> {
    let output = cut.spec(&op.output)?;
    match &op.kind {
        Kind::Map(map) => of_map(map, op, cut, output),
        Kind::Contract(contract) => of_sums(contract, op, cut, output),
        Kind::Fold(fold) => of_fold(fold, op, cut, output),
        Kind::Move(moved) => {
            let dims: Vec<usize> = moved.tables.iter().map(Vec::len).collect();
            let axis = cut.axis(&dims)?;
            let mut tables = moved.tables.clone();
            tables[axis] = cut.places.iter().map(|&place| tables[axis][place]).collect();
            let kind = Kind::Move(Move { tables, fill: moved.fill });
            let op = TensorOp { kind, inputs: op.inputs.clone(), output };
            op.check().ok()?;
            let whole = Trimmed { op: op.clone(), inputs: vec![None], of_whole: None };
            Some(of_move(&op).unwrap_or(whole))
        }
        _ => None,
    }
}

/// `op`, if it is a move, of the part of its input that it reads; `None` if it reads most of it.
pub(super) fn of_move(op: &TensorOp) -> Option<Trimmed> {
    let Kind::Move(moved) = &op.kind else { return None };
    let [input] = &op.inputs[..] else { return None };
    let strides = View::dense(&input.dims).strides;
    let axes = input.dims.iter().zip(strides).filter(|(size, _)| **size > 1);
    axes.filter_map(|(&size, inner)| of_axis(moved, op, size, inner)).next()
}

/// Like [`of_move`], if it reads few of the places of this axis.
fn of_axis(moved: &Move, op: &TensorOp, size: usize, inner: usize) -> Option<Trimmed> {
    let place = |at: usize| at / inner % size;
    let known = |table: &[usize]| table.iter().copied().filter(|&at| at != NOWHERE).collect();
    let known: Vec<Vec<usize>> = moved.tables.iter().map(|table| known(table)).collect();
    let on_axis = |table: &Vec<usize>| table.iter().any(|&at| place(at) != 0);
    let own: Vec<usize> = (0..known.len()).filter(|&k| on_axis(&known[k])).collect();
    let along = match own[..] {
        [] => None,
        [k] => Some(k),
        _ => return None,
    };
    let is_pure = |at: &usize| at.is_multiple_of(inner) && *at < inner * size;
    if along.is_some_and(|k| !known[k].iter().all(is_pure)) {
        return None;
    }
    let near = |table: &Vec<usize>| table.iter().map(|at| at % inner).max().unwrap_or(0);
    if known.iter().map(near).sum::<usize>() >= inner {
        return None;
    }
    let mut places: Vec<usize> =
        along.map_or(vec![0], |k| known[k].iter().map(|&at| place(at)).collect());
    places.sort_unstable();
    places.dedup();
    if places.is_empty() || 2 * places.len() > size {
        return None;
    }
    let cut = Cut { inner, size, places };
    let left = |at: usize| {
        let index = cut.places.binary_search(&place(at)).unwrap_or(0);
        at / (inner * size) * inner * cut.places.len() + index * inner + at % inner
    };
    let table = |table: &Vec<usize>| -> Vec<usize> {
        table.iter().map(|&at| if at == NOWHERE { at } else { left(at) }).collect()
    };
    let kind =
        Kind::Move(Move { tables: moved.tables.iter().map(table).collect(), fill: moved.fill });
    let inputs = vec![cut.spec(&op.inputs[0])?];
    let made = TensorOp { kind, inputs, output: op.output.clone() };
    made.check().ok()?;
    Some(Trimmed { op: made, inputs: vec![Some(cut)], of_whole: Some(op.clone()) })
}

fn of_map(map: &Map, op: &TensorOp, cut: &Cut, output: Spec) -> Option<Trimmed> {
    let axis = cut.axis(&op.output.dims)?;
    let from_last = op.output.dims.len() - axis;
    let part = |input: &Spec| {
        let own = input.dims.len().checked_sub(from_last).filter(|&k| input.dims[k] == cut.size)?;
        let inner = View::dense(&input.dims).strides[own];
        Some(Cut { inner, ..cut.clone() })
    };
    with(Kind::Map(map.clone()), op, op.inputs.iter().map(part).collect(), output)
}

fn of_sums(contract: &Contract, op: &TensorOp, cut: &Cut, output: Spec) -> Option<Trimmed> {
    let along = cut.axis(&contract.kept[0].dims)?;
    let mut made = contract.clone();
    let mut parts = Vec::new();
    for k in 0..2 {
        let part = part_of(&mut made.kept[k], &mut made.summed[k], along, cut)?;
        parts.push(part);
    }
    with(Kind::Contract(made), op, parts, output)
}

fn of_fold(fold: &Fold, op: &TensorOp, cut: &Cut, output: Spec) -> Option<Trimmed> {
    let along = cut.axis(&fold.kept.dims)?;
    let mut made = fold.clone();
    let part = part_of(&mut made.kept, &mut made.folded, along, cut)?;
    with(Kind::Fold(made), op, vec![part], output)
}

/// The part of an input that is seen by axis `along` of `kept` with `cut` of its places, of which
/// both views are then; none if all places see the same. `None` if it is not a part.
fn part_of(kept: &mut View, summed: &mut View, along: usize, cut: &Cut) -> Option<Option<Cut>> {
    let inner = kept.strides[along];
    if inner == 0 {
        kept.dims[along] = cut.places.len();
        return Some(None);
    }
    let own = Cut { inner, ..cut.clone() };
    [*kept, *summed] = own.views([kept, summed], along)?;
    Some(Some(own))
}

/// An operation of `parts` of the inputs of `op`.
fn with(kind: Kind, op: &TensorOp, parts: Vec<Option<Cut>>, output: Spec) -> Option<Trimmed> {
    let input = |(spec, part): (&Spec, &Option<Cut>)| match part {
        Some(cut) => cut.spec(spec),
        None => Some(spec.clone()),
    };
    let inputs = op.inputs.iter().zip(&parts).map(input).collect::<Option<_>>()?;
    let op = TensorOp { kind, inputs, output };
    op.check().ok()?;
    Some(Trimmed { op, inputs: parts, of_whole: None })
}
