//! Readers of each storage.

use crate::model::ports::Port;
use crate::tensors::step::TensorStep;
use std::collections::HashMap;

/// Of each storage, the steps that read it, by number, as often as they do. Reads of a network's
/// outputs by its caller have the number behind the last step's.
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
