//! Steps that a device runs as one: neighbours that read the same first, such as queries, keys and
//! values of attention.
//!
//! All storages of a group are in use all the time that it runs, so memory is planned by groups and
//! not by steps.

use crate::tensors::step::TensorStep;
use reef_op::Operators;
use reef_op::tensor::TensorOp;

/// Maximum number of steps that a device is asked about at once.
const MAX_STEPS: usize = 4;

/// `steps` in groups, in their order.
pub(crate) fn groups<'a, D: Operators>(
    device: &D,
    steps: &'a [TensorStep],
) -> Vec<&'a [TensorStep]> {
    let (mut left, mut groups) = (steps, Vec::new());
    while !left.is_empty() {
        let ops: Vec<&TensorOp> = left[..side_by_side(left)].iter().map(|s| &*s.op).collect();
        let count = if ops.len() > 1 { device.grouped(&ops).clamp(1, ops.len()) } else { 1 };
        let (group, others) = left.split_at(count);
        groups.push(group);
        left = others;
    }
    groups
}

/// Number of `steps`, from the first on, that have the same first input and read nothing that
/// another of them writes.
fn side_by_side(steps: &[TensorStep]) -> usize {
    let fits = |(k, step): &(usize, &TensorStep)| {
        let before = &steps[..*k];
        step.reads.first() == steps[0].reads.first()
            && before.iter().all(|other| !step.reads.contains(&other.writes))
    };
    steps.iter().take(MAX_STEPS).enumerate().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ports::Port;
    use crate::tensors::model::TensorModel;
    use reef_op::tensor::{Domain, Element, Formula, Kind, Map, Spec, Term};
    use std::collections::HashSet;
    use std::sync::Arc;

    /// A step that reads some storages and writes one.
    fn step(reads: &[usize], writes: usize) -> TensorStep {
        let spec = Spec { element: Element::F32, dims: vec![4] };
        let kind = Kind::Map(Map { formula: Formula(vec![Term::Input(0)]), domain: Domain::F32 });
        let op = TensorOp { kind, inputs: vec![spec.clone(); reads.len()], output: spec };
        TensorStep { name: String::new(), op: Arc::new(op), reads: reads.to_vec(), writes }
    }

    #[test]
    fn neighbours_that_read_the_same_first_are_side_by_side() {
        let steps =
            [step(&[1, 2], 5), step(&[1, 3], 6), step(&[1, 4], 7), step(&[5], 8), step(&[], 9)];
        assert_eq!(side_by_side(&steps), 3);
        assert_eq!([side_by_side(&steps[2..]), side_by_side(&steps[4..])], [1, 1]);
    }

    #[test]
    fn inputs_of_a_group_are_not_overwritten_by_its_outputs() {
        let steps =
            vec![step(&[0], 1), step(&[0], 2), step(&[1, 2], 3), step(&[1], 4), step(&[3, 4], 5)];
        let storages = vec![steps[0].op.output.clone(); 6];
        let port = |storage| Port::new("", storages[0].clone(), storage);
        let (inputs, outputs) = (vec![port(0)], vec![port(5)]);
        let (name, constants, quantized) = (String::new(), Vec::new(), HashSet::new());
        let model = TensorModel { name, inputs, outputs, storages, constants, quantized, steps };
        let places = |groups: Vec<&[TensorStep]>| model.arena_of(groups).offsets;
        let one_by_one = places(model.steps.chunks(1).collect());
        assert_eq!(one_by_one[2], one_by_one[4], "no step reads 2 when 4 is written");
        let [a, b] = [&model.steps[..2], &model.steps[2..4]];
        let grouped = places(vec![&a[..1], &a[1..], b, &model.steps[4..]]);
        assert_ne!(grouped[2], grouped[4]);
    }

    #[test]
    fn reader_of_another_step_is_in_a_later_group() {
        assert_eq!(side_by_side(&[step(&[1], 5), step(&[1, 5], 6), step(&[1], 7)]), 1);
        assert_eq!(side_by_side(&[step(&[1], 5), step(&[1], 6), step(&[1, 5], 7)]), 2);
    }
}
