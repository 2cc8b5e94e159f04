//! Writes steps anew, around storages that lie channels last.

use super::classes::turned;
use super::order::{by_steps, last, relaid, reordered, turns_from_last, turns_to_last};
use crate::model::ports::Port;
use crate::tensors::fuse::formulas::fuse;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Contract, Depthwise, Fold, Kind, Spec, TensorOp};
use std::collections::HashMap;
use std::sync::Arc;

/// `steps` of a device that convolves each channel by itself in either order, or numbers of 8 bits
/// with channels last, with channels last where that saves steps; as they are, if there is no such
/// convolution.
pub(in crate::tensors) fn channels_last(
    steps: Vec<TensorStep>,
    outputs: &[Port],
) -> Vec<TensorStep> {
    if !steps.iter().any(|step| matches!(step.op.kind, Kind::Depthwise(_) | Kind::Eight(_))) {
        return steps;
    }
    let turn = Turn { dims: turned(&steps, outputs) };
    match turn.all(&steps) {
        Some(made) => fuse(made, outputs),
        None => steps,
    }
}

struct Turn {
    /// Storages that lie channels last, and their sizes before.
    dims: HashMap<usize, [usize; 4]>,
}

impl Turn {
    fn all(&self, steps: &[TensorStep]) -> Option<Vec<TensorStep>> {
        // Storages that a step would have filled that is gone, and those with the same elements.
        let mut same: HashMap<usize, usize> = HashMap::new();
        let mut made = Vec::with_capacity(steps.len());
        for step in steps {
            let reads = step.reads.iter().map(|read| same.get(read).copied().unwrap_or(*read));
            let reads: Vec<usize> = reads.collect();
            if self.is_gone(step) {
                same.insert(step.writes, reads[0]);
                continue;
            }
            let op = self.anew(step)?;
            op.check().ok()?;
            made.push(TensorStep { op: Arc::new(op), reads, ..step.clone() });
        }
        Some(made)
    }

    /// Returns whether a step turns an image that need not be turned any more.
    fn is_gone(&self, step: &TensorStep) -> bool {
        let Kind::Move(op) = &step.op.kind else { return false };
        let dims = &step.op.inputs[0].dims;
        let [reads, writes] = [step.reads[0], step.writes].map(|one| self.dims.contains_key(&one));
        (reads && turns_to_last(op, dims)) || (writes && turns_from_last(op, dims))
    }

    /// Operation of `step` on images that lie differently now.
    fn anew(&self, step: &TensorStep) -> Option<TensorOp> {
        let TensorOp { kind, inputs, output } = &*step.op;
        let writes = self.dims.get(&step.writes).copied();
        let read = |k: usize| self.dims.get(&step.reads[k]).copied();
        let seen = |(k, spec): (usize, &Spec)| match (kind, writes) {
            (Kind::Map(_), Some(dims)) if spec.dims[..] != dims[..] => of_channels(spec),
            _ => self.spec(step.reads[k], spec),
        };
        let kind = match kind {
            Kind::Depthwise(op) => Kind::Depthwise(Depthwise {
                last: [op.last[0] || read(0).is_some(), op.last[1] || writes.is_some()],
                ..op.clone()
            }),
            Kind::Contract(op) => {
                let (mut kept, mut summed) = (op.kept.clone(), op.summed.clone());
                for k in 0..2 {
                    if let Some(dims) = read(k) {
                        [kept[k], summed[k]] = relaid([&kept[k], &summed[k]], dims)?;
                    }
                }
                if read(0).is_some() {
                    summed = by_steps(&summed);
                }
                if let Some(dims) = writes {
                    kept = reordered(&kept, dims)?;
                }
                Kind::Contract(Contract { kept, summed, ..op.clone() })
            }
            Kind::Fold(op) => {
                let [kept, folded] = match read(0) {
                    Some(dims) => relaid([&op.kept, &op.folded], dims)?,
                    None => [op.kept.clone(), op.folded.clone()],
                };
                Kind::Fold(Fold { kept, folded, ..op.clone() })
            }
            other => other.clone(),
        };
        let inputs = inputs.iter().enumerate().map(seen).collect();
        Some(TensorOp { kind, inputs, output: self.spec(step.writes, output) })
    }

    /// Type and sizes of a storage, as it lies now.
    fn spec(&self, storage: usize, spec: &Spec) -> Spec {
        let dims = self.dims.get(&storage).map_or_else(|| spec.dims.clone(), |dims| last(*dims));
        Spec { dims, ..spec.clone() }
    }
}

/// An input of one element, or of one for each channel, of a formula whose last axis channels are.
fn of_channels(spec: &Spec) -> Spec {
    let dims = if spec.elements() == 1 { Vec::new() } else { vec![spec.elements()] };
    Spec { dims, ..spec.clone() }
}
