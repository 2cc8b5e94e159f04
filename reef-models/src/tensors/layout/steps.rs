//! Needs of each kind of step: order of the images that it reads and fills.

use super::order::{image, relaid, reordered, turns_from_last, turns_to_last};
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Kind, Spec, TensorOp};

/// Needs of a step.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Storages that must lie as they do.
    pub(super) fixed: Vec<usize>,
    /// Storages that must lie like the one that is filled.
    pub(super) alike: Vec<usize>,
    /// A storage without which the step would not be needed, if it lay channels last.
    pub(super) turned: Option<usize>,
}

impl Needs {
    pub(super) fn of(step: &TensorStep) -> Self {
        let TensorOp { kind, inputs, output } = &*step.op;
        let mut needs = Self::default();
        let mut fix = |storage: usize, unless: bool| {
            if !unless {
                needs.fixed.push(storage);
            }
        };
        match kind {
            Kind::Map(_) => {
                let reads = step.reads.iter().zip(inputs);
                let (alike, others): (Vec<_>, Vec<_>) =
                    reads.partition(|(_, spec)| spec.dims == output.dims);
                let fits = others.iter().all(|(_, spec)| is_of_channels(spec, output));
                fix(step.writes, fits && image(&output.dims).is_some());
                others.iter().for_each(|(storage, spec)| fix(**storage, is_line(spec)));
                needs.alike.extend(alike.into_iter().map(|(storage, _)| *storage));
            }
            Kind::Move(op) if turns_to_last(op, &inputs[0].dims) => {
                fix(step.writes, false);
                needs.turned = Some(step.reads[0]);
            }
            Kind::Move(op) if turns_from_last(op, &inputs[0].dims) => {
                fix(step.reads[0], false);
                needs.turned = Some(step.writes);
            }
            Kind::Depthwise(_) => step.reads[1..].iter().for_each(|&storage| fix(storage, false)),
            Kind::Contract(op) => {
                for (k, (&storage, spec)) in step.reads.iter().zip(inputs).enumerate() {
                    let views = [&op.kept[k], &op.summed[k]];
                    fix(
                        storage,
                        image(&spec.dims).is_some_and(|dims| relaid(views, dims).is_some()),
                    );
                }
                let made = image(&output.dims).and_then(|dims| reordered(&op.kept, dims));
                fix(step.writes, made.is_some());
            }
            Kind::Fold(op) => {
                let dims = image(&inputs[0].dims);
                let views = dims.and_then(|dims| relaid([&op.kept, &op.folded], dims));
                fix(step.reads[0], views.is_some());
                fix(step.writes, is_line(output));
            }
            _ => step.reads.iter().chain([&step.writes]).for_each(|&storage| fix(storage, false)),
        }
        needs
    }
}

/// Returns whether an input of a formula is one element, or one for each channel of its output.
pub(super) fn is_of_channels(spec: &Spec, output: &Spec) -> bool {
    let channels = output.dims.get(1).copied();
    let axis = spec.dims.len().checked_sub(3).and_then(|at| spec.dims.get(at).copied());
    spec.elements() == 1 || (axis == channels && Some(spec.elements()) == channels)
}

/// Returns whether elements lie alike in both orders.
fn is_line(spec: &Spec) -> bool {
    spec.dims.len() != 4 || spec.dims.iter().filter(|&&size| size != 1).count() < 2
}
