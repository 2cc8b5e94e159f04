//! Who reads what.

use crate::model::ports::Port;
use crate::tensors::step::TensorStep;
use std::collections::HashMap;

/// Of each storage, the steps that read it, by number, as often as they do; those who take a
/// network's outputs are one more behind the last.
pub(super) struct Readers {
    of: HashMap<usize, Vec<usize>>,
}

impl Readers {
    pub(super) fn of(steps: &[TensorStep], outputs: &[Port]) -> Self {
        let mut of: HashMap<usize, Vec<usize>> = HashMap::new();
        let taken = outputs.iter().map(|port| (steps.len(), port.storage));
        let read =
            steps.iter().enumerate().flat_map(|(k, step)| step.reads.iter().map(move |&s| (k, s)));
        read.chain(taken).for_each(|(k, storage)| of.entry(storage).or_default().push(k));
        Self { of }
    }

    pub(super) fn all(&self, storage: usize) -> &[usize] {
        self.of.get(&storage).map_or(&[], Vec::as_slice)
    }
}
