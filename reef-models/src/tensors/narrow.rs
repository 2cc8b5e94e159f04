//! Values that a device rounds to halves wherever they are read are stored as such: half of the
//! memory that is read and written, and not one bit of what comes out is another.

use crate::tensors::step::TensorStep;
use reef_op::tensor::{Element, TensorOp};
use std::collections::HashSet;
use std::sync::Arc;

/// `steps` with storages of halves where all their readers round them: `rounds` says so of a step
/// and one of its reads. Storages in `given` are constants, or come from outside or go there, and
/// stay as they are. `takes`: whether the device has a kernel for an operation on halves.
pub(super) fn narrowed(
    steps: Vec<TensorStep>,
    given: &HashSet<usize>,
    rounds: &dyn Fn(&TensorStep, usize) -> bool,
    takes: &dyn Fn(&TensorOp) -> bool,
) -> Vec<TensorStep> {
    let made = steps.iter().filter(|step| step.op.output.element == Element::F32);
    let read: HashSet<usize> = steps.iter().flat_map(|step| step.reads.iter().copied()).collect();
    let own = made.map(|step| step.writes).filter(|own| !given.contains(own) && read.contains(own));
    let mut halves: HashSet<usize> = own.collect();
    for step in &steps {
        for (k, read) in step.reads.iter().enumerate() {
            if halves.contains(read) && !rounds(step, k) {
                halves.remove(read);
            }
        }
    }
    // A step whose kernel doesn't take them all takes none; then others that read or wrote them may
    // not either.
    loop {
        let count = halves.len();
        for step in &steps {
            if changed(step, &halves).is_some_and(|op| !takes(&op)) {
                step.reads.iter().chain([&step.writes]).for_each(|storage| {
                    halves.remove(storage);
                });
            }
        }
        if halves.len() == count {
            break;
        }
    }
    let narrow = |step: TensorStep| match changed(&step, &halves) {
        Some(op) => TensorStep { op: Arc::new(op), ..step },
        None => step,
    };
    steps.into_iter().map(narrow).collect()
}

/// The operation of a step on halves; `None` if it has none.
fn changed(step: &TensorStep, halves: &HashSet<usize>) -> Option<TensorOp> {
    let used = || step.reads.iter().chain([&step.writes]);
    if !used().any(|storage| halves.contains(storage)) {
        return None;
    }
    let mut op = TensorOp::clone(&step.op);
    let specs = op.inputs.iter_mut().chain([&mut op.output]);
    for (spec, _) in specs.zip(used()).filter(|(_, storage)| halves.contains(storage)) {
        spec.element = Element::F16;
    }
    Some(op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::{Domain, Formula, Kind, Map, Spec, Term};

    fn step(reads: &[usize], writes: usize) -> TensorStep {
        let spec = Spec { element: Element::F32, dims: vec![4] };
        let kind = Kind::Map(Map { formula: Formula(vec![Term::Input(0)]), domain: Domain::F32 });
        let op = TensorOp { kind, inputs: vec![spec.clone(); reads.len()], output: spec };
        TensorStep { name: String::new(), op: Arc::new(op), reads: reads.to_vec(), writes }
    }

    /// Storages that are halves, as their writers have them and as their readers do.
    fn halves(steps: Vec<TensorStep>) -> [Vec<usize>; 2] {
        let mut all = [Vec::new(), Vec::new()];
        for step in steps {
            let specs = step.op.inputs.iter().map(|spec| (0, spec)).chain([(1, &step.op.output)]);
            for ((which, spec), &storage) in specs.zip(step.reads.iter().chain([&step.writes])) {
                if spec.element == Element::F16 && !all[which].contains(&storage) {
                    all[which].push(storage);
                }
            }
        }
        all
    }

    /// 0 and 1 come from outside, 9 goes there; a step rounds what it reads first.
    fn halves_with(steps: Vec<TensorStep>, takes: &dyn Fn(&TensorOp) -> bool) -> [Vec<usize>; 2] {
        let given = [0, 1, 9].into_iter().collect();
        halves(narrowed(steps, &given, &|_, k| k == 0, takes))
    }

    const NONE: [Vec<usize>; 2] = [Vec::new(), Vec::new()];

    #[test]
    fn storage_that_all_readers_round_is_halves_to_all() {
        let steps = || vec![step(&[0, 1], 2), step(&[2, 1], 3), step(&[2, 3], 4), step(&[4], 9)];
        assert_eq!(
            halves_with(steps(), &|_| true),
            [vec![2, 4], vec![2, 4]],
            "3 is read as it is once"
        );
        assert_eq!(halves(steps()), NONE);
    }

    #[test]
    fn storage_without_readers_or_for_others_stays() {
        assert_eq!(halves_with(vec![step(&[0], 2), step(&[0], 9)], &|_| true), NONE);
    }

    #[test]
    fn step_without_a_kernel_for_halves_and_neighbours_have_none() {
        let steps = vec![step(&[0], 2), step(&[2, 1], 3), step(&[3], 4), step(&[4], 9)];
        let takes = |op: &TensorOp| op.inputs.len() < 2;
        assert_eq!(halves_with(steps, &takes), [vec![4], vec![4]]);
    }
}
