//! Finds the places of each storage that are read, from the outputs back, and makes these alone.

use super::cut::Cut;
use super::rules::{Trimmed, of_move, of_result};
use crate::model::ports::Port;
use crate::tensors::axes::Result;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Kind, Move, Scalar, Spec, TensorOp, View};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Part of a storage that is read; `None` if all of it is.
type Part = Option<Cut>;

/// `steps` without the places that nothing reads. `is_constant` says so of a storage, and `storage`
/// makes one.
pub(in crate::tensors) fn trimmed(
    steps: Vec<TensorStep>,
    outputs: &[Port],
    is_constant: &dyn Fn(usize) -> bool,
    storage: &mut dyn FnMut(&Spec) -> Result<usize>,
) -> Result<Vec<TensorStep>> {
    let (read, plans) = parts_read(&steps, outputs, is_constant);
    if !read.values().any(Option::is_some) {
        return Ok(steps);
    }
    let own: HashSet<usize> = steps.iter().map(|step| step.writes).collect();
    let (parts, results) = (HashMap::new(), HashSet::new());
    let mut output = Output { steps: Vec::new(), parts, results, storage };
    for (step, plan) in steps.into_iter().zip(plans) {
        let part = read.get(&step.writes).cloned().flatten();
        let Some(plan) = plan else {
            output.steps.push(step);
            continue;
        };
        // A storage that no step makes is there as a whole.
        let is_whole = |storage: &usize| !own.contains(storage) || read[storage].is_none();
        let whole = plan.of_whole.filter(|_| step.reads.iter().all(is_whole));
        let (op, parts) = match whole {
            Some(op) => (op, vec![None; step.reads.len()]),
            None => (plan.op, plan.inputs),
        };
        output.step(&step, op, &parts, part)?;
    }
    Ok(output.steps)
}

/// Parts that are read of each storage, and each step as it makes and reads that, if it is another.
fn parts_read(
    steps: &[TensorStep],
    outputs: &[Port],
    is_constant: &dyn Fn(usize) -> bool,
) -> (HashMap<usize, Part>, Vec<Option<Trimmed>>) {
    let mut parts: HashMap<usize, Part> = outputs.iter().map(|port| (port.storage, None)).collect();
    let mut plans = vec![None; steps.len()];
    for (step, plan) in steps.iter().zip(&mut plans).rev() {
        let varies = |plan: &Trimmed| {
            let reads = step.reads.iter().zip(&plan.inputs);
            reads.into_iter().all(|(&read, part)| part.is_none() || !is_constant(read))
        };
        let part = parts.get(&step.writes).cloned().flatten();
        *plan = part.and_then(|cut| of_result(&step.op, &cut)).filter(varies);
        if plan.is_none() {
            parts.insert(step.writes, None);
            *plan = of_move(&step.op).filter(varies);
        }
        for (k, &read) in step.reads.iter().enumerate() {
            let part = plan.as_ref().and_then(|plan| plan.inputs[k].clone());
            let known = parts.entry(read).or_insert_with(|| part.clone());
            if *known != part {
                *known = None;
            }
        }
    }
    (parts, plans)
}

/// Steps so far, and the storages of parts.
struct Output<'a> {
    steps: Vec<TensorStep>,
    parts: HashMap<(usize, Cut), usize>,
    /// Storages of the network that parts are made in, as they equal them.
    results: HashSet<usize>,
    storage: &'a mut dyn FnMut(&Spec) -> Result<usize>,
}

impl Output<'_> {
    /// Adds `op` of these parts of what `step` reads, which makes this part of what it writes.
    fn step(
        &mut self,
        step: &TensorStep,
        op: TensorOp,
        parts: &[Option<Cut>],
        part: Part,
    ) -> Result<()> {
        let mut reads = step.reads.clone();
        for (k, (read, part)) in reads.iter_mut().zip(parts).enumerate() {
            if let Some(cut) = part {
                *read = self.part(*read, cut, &step.op.inputs[k], &step.name)?;
            }
        }
        let is_part = parts[..] != [None] && !self.results.contains(&reads[0]);
        if part.is_none() && is_part && is_copy(&op) {
            self.rename(reads[0], step.writes);
            return Ok(());
        }
        let writes = match part {
            Some(cut) => {
                let own = (self.storage)(&op.output)?;
                self.parts.insert((step.writes, cut), own);
                own
            }
            None => step.writes,
        };
        self.steps.push(TensorStep { name: step.name.clone(), op: Arc::new(op), reads, writes });
        Ok(())
    }

    /// Has the part in `from` in `to` instead.
    fn rename(&mut self, from: usize, to: usize) {
        for step in &mut self.steps {
            let used = step.reads.iter_mut().chain([&mut step.writes]);
            used.filter(|storage| **storage == from).for_each(|storage| *storage = to);
        }
        self.parts.values_mut().filter(|part| **part == from).for_each(|part| *part = to);
        self.results.insert(to);
    }

    /// The storage of a part of `whole`, which is seen as `spec`.
    fn part(&mut self, whole: usize, cut: &Cut, spec: &Spec, name: &str) -> Result<usize> {
        if let Some(&part) = self.parts.get(&(whole, cut.clone())) {
            return Ok(part);
        }
        let (axis, output) = cut.axis(&spec.dims).zip(cut.spec(spec)).ok_or("a part of no axis")?;
        let strides = View::dense(&spec.dims).strides;
        let table = |k: usize| -> Vec<usize> {
            let all: Vec<usize> = (0..spec.dims[k]).collect();
            let places = if k == axis { &cut.places } else { &all };
            places.iter().map(|place| place * strides[k]).collect()
        };
        let tables = (0..spec.dims.len()).map(table).collect();
        let kind = Kind::Move(Move { tables, fill: Scalar::Whole(0) });
        let op = TensorOp { kind, inputs: vec![spec.clone()], output };
        let writes = (self.storage)(&op.output)?;
        self.parts.insert((whole, cut.clone()), writes);
        let step = TensorStep { name: name.into(), op: Arc::new(op), reads: vec![whole], writes };
        self.steps.push(step);
        Ok(writes)
    }
}

/// Returns whether a move gives all elements in their order.
fn is_copy(op: &TensorOp) -> bool {
    let Kind::Move(moved) = &op.kind else { return false };
    let dims: Vec<usize> = moved.tables.iter().map(Vec::len).collect();
    let strides = View::dense(&dims).strides;
    let in_order = |(table, stride): (&Vec<usize>, usize)| {
        table.iter().enumerate().all(|(k, &at)| at == k * stride)
    };
    op.inputs[0].elements() == op.output.elements()
        && moved.tables.iter().zip(strides).all(in_order)
}
