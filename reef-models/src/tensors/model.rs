//! A network of tensors as plain data.

use crate::graph::arena::{self, ArenaPlan};
use reef_core::tensor::{Array, Spec, TensorOp};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A tensor that goes in or out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// As the file calls it.
    pub name: String,
    /// Element type and sizes.
    pub spec: Spec,
    /// Number of its storage.
    pub storage: usize,
}

/// One operation of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorStep {
    /// Of the node that it belongs to.
    pub name: String,
    /// What it computes.
    pub op: Arc<TensorOp>,
    /// Storages that it reads, in the operation's order.
    pub reads: Vec<usize>,
    /// The storage that it fills.
    pub writes: usize,
}

/// A network of tensors: storages, and the steps that fill them.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorModel {
    /// What to call it.
    pub name: String,
    /// What goes in.
    pub inputs: Vec<Port>,
    /// What comes out; no two have one storage.
    pub outputs: Vec<Port>,
    /// All storages.
    pub(crate) storages: Vec<Spec>,
    /// Storages whose values are known.
    pub(crate) constants: Vec<(usize, Array)>,
    pub(crate) steps: Vec<TensorStep>,
}

impl TensorModel {
    /// The steps, in launch order.
    pub fn steps(&self) -> &[TensorStep] {
        &self.steps
    }

    /// Values of all constants.
    pub fn parameters(&self) -> usize {
        self.constants.iter().map(|(_, array)| array.len()).sum()
    }

    /// Where activations lie: those that live at different times share memory.
    pub fn arena(&self) -> ArenaPlan {
        let mut lives: Vec<Option<RangeInclusive<usize>>> = vec![None; self.storages.len()];
        for (k, step) in self.steps.iter().enumerate() {
            for &storage in step.reads.iter().chain([&step.writes]) {
                let first = lives[storage].as_ref().map_or(k, |life| *life.start());
                lives[storage] = Some(first..=k);
            }
        }
        let ports = self.inputs.iter().chain(&self.outputs).map(|port| port.storage);
        ports
            .chain(self.constants.iter().map(|constant| constant.0))
            .for_each(|own| lives[own] = None);
        let bytes: Vec<usize> = self.storages.iter().map(Spec::bytes).collect();
        arena::place(&bytes, lives)
    }
}
