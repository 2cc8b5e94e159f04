//! Maker and readers of each storage.

use crate::model::ports::Port;
use crate::tensors::step::TensorStep;
use std::collections::{HashMap, HashSet};

/// Steps of a network by the storages that they make and read.
pub(super) struct Steps<'a> {
    pub(super) all: &'a [TensorStep],
    makers: HashMap<usize, usize>,
    readers: HashMap<usize, Vec<usize>>,
    /// Read by the network's caller.
    outputs: Vec<usize>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(all: &'a [TensorStep], outputs: &[Port]) -> Self {
        let makers = all.iter().enumerate().map(|(k, step)| (step.writes, k)).collect();
        let mut readers: HashMap<usize, Vec<usize>> = HashMap::new();
        for (k, step) in all.iter().enumerate() {
            step.reads.iter().for_each(|read| readers.entry(*read).or_default().push(k));
        }
        Self { all, makers, readers, outputs: outputs.iter().map(|port| port.storage).collect() }
    }

    /// The step that makes a storage.
    pub(super) fn maker(&self, storage: usize) -> Option<&'a TensorStep> {
        self.makers.get(&storage).map(|&k| &self.all[k])
    }

    /// As [`maker`](Self::maker), if the storage has this number of readers.
    pub(super) fn maker_for(&self, storage: usize, readers: usize) -> Option<&'a TensorStep> {
        self.maker(storage).filter(|_| self.readers(storage) == readers)
    }

    /// Number of reads of a storage.
    pub(super) fn readers(&self, storage: usize) -> usize {
        let outside = self.outputs.iter().filter(|&&output| output == storage).count();
        self.readers.get(&storage).map_or(0, Vec::len) + outside
    }

    /// The number of the only step that reads a storage.
    pub(super) fn only_reader(&self, storage: usize) -> Option<usize> {
        self.readers.get(&storage).filter(|_| self.readers(storage) == 1).map(|readers| readers[0])
    }
}

/// Steps without those that make nothing for others.
pub(super) fn needed(steps: Vec<TensorStep>, outputs: &[Port]) -> Vec<TensorStep> {
    let mut wanted: HashSet<usize> = outputs.iter().map(|port| port.storage).collect();
    let mut kept: Vec<TensorStep> = Vec::with_capacity(steps.len());
    for step in steps.into_iter().rev() {
        if wanted.contains(&step.writes) {
            wanted.extend(&step.reads);
            kept.push(step);
        }
    }
    kept.reverse();
    kept
}
