//! A network of tensors on a device: memory of its own, constants that it shares, commands ready to submit.

use super::model::{Port, TensorModel, TensorStep};
use crate::errors::error::{Error, Result};
use crate::graph::arena::ArenaPlan;
use reef_core::op::{Operators, Storage, TensorOperands};
use reef_core::tensor::{Array, Spec};
use reef_core::{Command, Copy, Launch};
use std::sync::Arc;

/// The constants of a network on a device; any number of instances share them.
#[derive(Debug)]
pub struct TensorWeights<D: Operators> {
    buffers: Vec<(usize, D::Buffer)>,
}

impl<D: Operators> TensorWeights<D> {
    /// Brings all constants of `model` onto the device.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn upload(device: &D, model: &TensorModel) -> Result<Arc<Self>> {
        let upload = |(storage, array): &(usize, Array)| {
            let bytes = array.to_le_bytes();
            let buffer = device.alloc(bytes.len())?;
            device.write(&buffer, 0, &bytes)?;
            Ok((*storage, buffer))
        };
        let buffers = model.constants.iter().map(upload).collect::<Result<_>>()?;
        Ok(Arc::new(Self { buffers }))
    }
}

/// One instance of a network of tensors. It serves one inference at a time.
#[derive(Debug)]
pub struct TensorNetwork<D: Operators> {
    device: D,
    inputs: Vec<Ported<D>>,
    outputs: Vec<Ported<D>>,
    commands: Arc<[Command<D>]>,
    arena_bytes: usize,
    _weights: Arc<TensorWeights<D>>,
}

/// An input or output with its memory on both sides.
#[derive(Debug)]
struct Ported<D: Operators> {
    port: Port,
    device: D::Buffer,
    host: D::Buffer,
}

impl<D: Operators> TensorNetwork<D> {
    /// Allocates an instance of `model` and prepares its launches.
    ///
    /// # Errors
    ///
    /// `Refused` names the node whose operation the device has no kernel for; the device's.
    pub fn new(device: &D, model: &TensorModel, weights: &Arc<TensorWeights<D>>) -> Result<Self> {
        let plan = model.arena();
        let ported = |port: &Port| Ported::new(device, port);
        let inputs = model.inputs.iter().map(ported).collect::<Result<Vec<_>>>()?;
        let outputs = model.outputs.iter().map(ported).collect::<Result<Vec<_>>>()?;
        let arena = device.alloc(plan.bytes)?;
        let places =
            Places { plan: &plan, arena: &arena, inputs: &inputs, outputs: &outputs, weights };
        let mut launches = Vec::new();
        for step in &model.steps {
            launches.extend(places.launches(device, step)?.into_iter().map(Command::Launch));
        }
        let copies_in = inputs.iter().map(Ported::copy_in);
        let copies_out = outputs.iter().map(Ported::copy_out);
        let commands = copies_in.chain(launches).chain(copies_out).collect();
        let (device, arena_bytes) = (device.clone(), plan.bytes);
        Ok(Self { device, inputs, outputs, commands, arena_bytes, _weights: weights.clone() })
    }

    /// One whole inference: copies in, launches, copies out. The same commands every time.
    pub fn inference(&self) -> Arc<[Command<D>]> {
        self.commands.clone()
    }

    /// Bytes of device memory for activations, inputs and outputs aside.
    pub fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    /// Writes input `index` where [`inference`](Self::inference) copies it from.
    ///
    /// # Errors
    ///
    /// `Tensor` if it is of another type or length than the network's, or there is none of this number; the device's.
    pub fn stage(&self, index: usize, array: &Array) -> Result<()> {
        let ported = of(&self.inputs, index, "input")?;
        let want = &ported.port.spec;
        if (array.element(), array.len()) != (want.element, want.elements()) {
            let (name, given) = (&ported.port.name, array.element());
            let why =
                format!("input {name:?}: {} values of {given} given, {want} wanted", array.len());
            return Err(Error::Tensor { why });
        }
        Ok(self.device.write(&ported.host, 0, &array.to_le_bytes())?)
    }

    /// Output `index` of the last completed [`inference`](Self::inference).
    ///
    /// # Errors
    ///
    /// `Tensor` if there is none of this number; the device's.
    pub fn output(&self, index: usize) -> Result<Array> {
        let ported = of(&self.outputs, index, "output")?;
        let mut bytes = vec![0; ported.port.spec.bytes()];
        self.device.read(&ported.host, 0, &mut bytes)?;
        Ok(Array::from_le_bytes(ported.port.spec.element, &bytes))
    }
}

fn of<'a, D: Operators>(ports: &'a [Ported<D>], index: usize, what: &str) -> Result<&'a Ported<D>> {
    let why = || format!("{what} {index} of {}", ports.len());
    ports.get(index).ok_or_else(|| Error::Tensor { why: why() })
}

impl<D: Operators> Ported<D> {
    fn new(device: &D, port: &Port) -> Result<Self> {
        let bytes = port.spec.bytes();
        let (host, device) = (device.alloc_host(bytes)?, device.alloc(bytes)?);
        Ok(Self { port: port.clone(), device, host })
    }

    fn copy_in(&self) -> Command<D> {
        copy(&self.host, &self.device, &self.port.spec, false)
    }

    fn copy_out(&self) -> Command<D> {
        copy(&self.device, &self.host, &self.port.spec, true)
    }
}

fn copy<D: Operators>(from: &D::Buffer, to: &D::Buffer, spec: &Spec, to_host: bool) -> Command<D> {
    Command::Copy(Copy {
        from: from.clone(),
        from_offset: 0,
        to: to.clone(),
        to_offset: 0,
        bytes: spec.bytes(),
        to_host,
    })
}

/// Where each storage lies.
struct Places<'a, D: Operators> {
    plan: &'a ArenaPlan,
    arena: &'a D::Buffer,
    inputs: &'a [Ported<D>],
    outputs: &'a [Ported<D>],
    weights: &'a TensorWeights<D>,
}

impl<D: Operators> Places<'_, D> {
    fn launches(&self, device: &D, step: &TensorStep) -> Result<Vec<Launch<D>>> {
        let inputs = step.reads.iter().map(|&read| self.storage(read)).collect::<Result<_>>()?;
        let operands = TensorOperands { inputs, output: self.storage(step.writes)? };
        device.tensor_operator(&step.op, &operands).map_err(|why| match why {
            reef_core::Error::Unsupported { .. } => Error::Refused { node: step.name.clone(), why },
            other => other.into(),
        })
    }

    fn storage(&self, storage: usize) -> Result<Storage<'_, D>> {
        if let Some(offset) = self.plan.offsets[storage] {
            return Ok(Storage { buffer: self.arena, offset });
        }
        let ports = self.inputs.iter().chain(self.outputs);
        let mut ports = ports.map(|ported| (ported.port.storage, &ported.device));
        let port = ports.find(|(number, _)| *number == storage).map(|(_, buffer)| buffer);
        let constant = || {
            let at = self.weights.buffers.binary_search_by_key(&storage, |(number, _)| *number);
            at.ok().map(|at| &self.weights.buffers[at].1)
        };
        let missing = || Error::Tensor { why: format!("the weights have no storage {storage}") };
        let buffer = port.or_else(constant).ok_or_else(missing)?;
        Ok(Storage { buffer, offset: 0 })
    }
}
