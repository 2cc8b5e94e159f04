//! A network of tensors as plain data.

use crate::errors::error::{Error, Result};
use crate::graph::arena::{self, ArenaPlan};
use crate::model::ports::{Extent, Port};
use crate::tensors::attention::find;
use crate::tensors::constant::Constant;
use crate::tensors::join::depthwise;
use crate::tensors::join::eight::steps as eight;
use crate::tensors::join::joined::joined;
use crate::tensors::join::moves;
use crate::tensors::layout::turn::channels_last;
use crate::tensors::narrow::narrowed;
use crate::tensors::step::TensorStep;
use reef_op::Operators;
use reef_op::tensor::{Array, Spec, TensorOp};
use std::collections::HashSet;
use std::ops::RangeInclusive;

/// A network of tensors: storages, and the steps that fill them.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorModel {
    /// Name of the network.
    pub name: String,
    /// Tensors that go in.
    pub inputs: Vec<Port>,
    /// Tensors that come out; no two have one storage.
    pub outputs: Vec<Port>,
    /// All storages.
    pub(crate) storages: Vec<Spec>,
    /// Storages whose values are known.
    pub(crate) constants: Vec<(usize, Constant)>,
    /// Constants that are weights of a convolution between numbers of 8 bits, and its bias and
    /// factors if it has them.
    pub(crate) quantized: HashSet<(usize, Option<usize>, Option<usize>)>,
    pub(crate) steps: Vec<TensorStep>,
}

impl TensorModel {
    /// The steps, in launch order.
    pub fn steps(&self) -> &[TensorStep] {
        &self.steps
    }

    /// The steps for a device, which may have some that follow each other as one operation, and may
    /// round what it reads.
    pub fn steps_on<D: Operators>(&self, device: &D) -> Vec<TensorStep> {
        let has = |op: &TensorOp| device.has_joined(op);
        foresee(device, &self.steps);
        let steps = find::joined(&self.steps, &self.outputs, &has);
        let free = self.storages.len();
        let steps = eight::join(&steps, &self.outputs, &self.quantized, free, &has);
        let steps = channels_last(depthwise::join(&steps, &self.outputs, &has), &self.outputs);
        let steps = moves::join(steps, &self.outputs);
        let steps = joined(&steps, &self.outputs, &has);
        foresee(device, &steps);
        let known = || self.constants.iter().map(|(storage, _)| *storage);
        let ports = self.inputs.iter().chain(&self.outputs).map(|port| port.storage);
        let (constants, given): (HashSet<usize>, _) =
            (known().collect(), ports.chain(known()).collect());
        let rounds = |step: &TensorStep, k: usize| {
            let packed = device.packed_input(&step.op);
            packed.is_none_or(|packed| constants.contains(&step.reads[packed.input]))
                && device.rounds_to_halves(&step.op, k)
        };
        let steps = narrowed(steps, &given, &rounds, &|op| device.takes_halves(op));
        foresee(device, &steps);
        steps
    }

    /// Values of all constants.
    pub fn parameters(&self) -> usize {
        self.constants.iter().map(|(_, constant)| constant.len()).sum()
    }

    /// Bytes of each constant.
    pub(crate) fn constant_bytes(&self) -> impl Iterator<Item = usize> {
        self.constants.iter().map(|(_, constant)| constant.bytes())
    }

    /// A copy without the values of constants, for those that are on a device.
    pub(crate) fn without_values(&self) -> Self {
        let Self { name, inputs, outputs, storages, constants, quantized, steps } = self;
        let empty = |(storage, constant): &(usize, Constant)| (*storage, constant.without_values());
        Self {
            name: name.clone(),
            inputs: inputs.clone(),
            outputs: outputs.clone(),
            storages: storages.clone(),
            constants: constants.iter().map(empty).collect(),
            quantized: quantized.clone(),
            steps: steps.clone(),
        }
    }

    /// Computes the outputs for `inputs`, by plain loops on the host.
    ///
    /// # Errors
    ///
    /// `Tensor` if an input is missing or of another type or length than the network's, `Unended`
    /// if a loop would go on beyond its bound.
    pub fn execute(&self, inputs: &[Array]) -> Result<Vec<Array>> {
        let written = self.steps.iter().map(|step| step.writes + 1).max().unwrap_or(0);
        let mut held: Vec<Option<Array>> = vec![None; written.max(self.storages.len())];
        for (k, port) in self.inputs.iter().enumerate() {
            let given = inputs.get(k).filter(|array| {
                (array.element(), array.len()) == (port.spec.element, port.spec.elements())
            });
            let why = || format!("input {:?}: must be {}", port.name, port.spec);
            held[port.storage] = Some(given.cloned().ok_or_else(|| Error::Tensor { why: why() })?);
        }
        let constants = self.constants.iter();
        constants.for_each(|(at, constant)| held[*at] = Some(constant.array().into_owned()));
        for step in &self.steps {
            let read = |&read: &usize| held[read].as_ref().map(Array::values);
            let values = step.reads.iter().map(read).collect::<Option<Vec<_>>>();
            let values = values.ok_or_else(|| unwritten(&step.name))?;
            let all = 0..step.op.output.elements();
            let made = step.op.compute(&values, all, &|| false)?;
            held[step.writes] = made;
        }
        for port in self.outputs.iter().filter(|port| port.extent == Extent::Check) {
            let left = held[port.storage].as_ref().ok_or_else(|| unwritten(&port.name))?;
            if left.values().to_i64()[0] != 0 {
                return Err(Error::Unended { at: port.name.clone() });
            }
        }
        let ports = self.outputs.iter().filter(|port| !port.extent.is_internal());
        ports.map(|port| output_of(port, &mut held).ok_or_else(|| unwritten("output"))).collect()
    }

    /// Places of the activations. Those that live at different times share memory.
    pub fn arena(&self) -> ArenaPlan {
        self.arena_of(self.steps.chunks(1))
    }

    /// As [`arena`](Self::arena), of steps for a device, in groups that run side by side. Storages
    /// behind the network's are as large as what is written there.
    pub fn arena_of<'a>(&self, groups: impl IntoIterator<Item = &'a [TensorStep]>) -> ArenaPlan {
        let mut bytes: Vec<usize> = self.storages.iter().map(Spec::bytes).collect();
        let mut lives: Vec<Option<RangeInclusive<usize>>> = vec![None; bytes.len()];
        for (k, group) in groups.into_iter().enumerate() {
            for step in group.iter().filter(|step| step.writes >= self.storages.len()) {
                let len = bytes.len().max(step.writes + 1);
                bytes.resize(len, 0);
                lives.resize(len, None);
                bytes[step.writes] = step.op.output.bytes();
            }
            let used = group.iter().flat_map(|step| step.reads.iter().chain([&step.writes]));
            for &storage in used {
                let first = lives[storage].as_ref().map_or(k, |life| *life.start());
                lives[storage] = Some(first..=k);
            }
        }
        let ports = self.inputs.iter().chain(&self.outputs).map(|port| port.storage);
        ports
            .chain(self.constants.iter().map(|constant| constant.0))
            .for_each(|own| lives[own] = None);
        arena::place(&bytes, lives)
    }
}

/// Values of a port, up to the size that was computed for it.
fn output_of(port: &Port, held: &mut [Option<Array>]) -> Option<Array> {
    if port.spec.elements() == 0 {
        return Some(Array::with_capacity(port.spec.element, 0));
    }
    let made = held[port.storage].take()?;
    let Extent::Bounded { size, .. } = port.extent else { return Some(made) };
    let size = held[size].as_ref()?.values().to_i64()[0];
    Some(Array::from_le_bytes(port.spec.element, &port.cut(made.to_le_bytes(), size)))
}

fn unwritten(reader: &str) -> Error {
    Error::Tensor { why: format!("{reader}: it reads what nothing has written") }
}

/// Questions about these steps follow.
fn foresee<D: Operators>(device: &D, steps: &[TensorStep]) {
    device.foresee_tensors(&steps.iter().map(|step| &*step.op).collect::<Vec<_>>());
}
