//! Inputs and outputs of a network on the host, and in memory of others on the device.

use super::memory::Side;
use super::network::Network;
use crate::errors::error::{Error, Result};
use crate::model::ports::{Port, Ports};
use crate::model::seeded::Seeded;
use reef_core::{Command, Copy};
use reef_op::Operators;
use reef_op::tensor::{Array, Element};

impl<D: Operators> Network<D> {
    /// Inputs of the network.
    pub fn inputs(&self) -> &Ports {
        &self.memory.inputs.ports
    }

    /// Outputs of the network.
    pub fn outputs(&self) -> &Ports {
        &self.memory.outputs.ports
    }

    /// Values of all inputs.
    pub fn input_len(&self) -> usize {
        self.inputs().iter().map(|(_, port)| port.spec.elements()).sum()
    }

    /// Values of all outputs.
    pub fn output_len(&self) -> usize {
        self.outputs().iter().map(|(_, port)| port.spec.elements()).sum()
    }

    /// Writes the only input, of f32, where [`inference`](Self::inference) copies it from.
    ///
    /// # Errors
    ///
    /// `Length` if `input` is not as long as the network's, `Tensor` if that has other inputs; an
    /// error of the device.
    pub fn stage_input(&self, input: &[f32]) -> Result<()> {
        let port = only_floats(&self.memory.inputs, "input")?;
        let (given, want) = (input.len(), port.spec.elements());
        if given != want {
            return Err(Error::Length { what: "input".into(), given, want });
        }
        let bytes: Vec<u8> = input.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.stage_bytes(0, &bytes)
    }

    /// The only output, of f32, that the last completed [`inference`](Self::inference) copied out.
    ///
    /// # Errors
    ///
    /// `Tensor` if the network has other outputs; errors of [`ensure_ended`](Self::ensure_ended).
    pub fn staged_output(&self) -> Result<Vec<f32>> {
        let port = only_floats(&self.memory.outputs, "output")?;
        let mut bytes = vec![0; port.spec.bytes()];
        self.read_staged(0, &mut bytes)?;
        Ok(bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect())
    }

    /// Writes input `index` where [`inference`](Self::inference) copies it from.
    ///
    /// # Errors
    ///
    /// `Tensor` if it is of another type or length than the network's, or there is none of this
    /// number; an error of the device.
    pub fn stage(&self, index: usize, array: &Array) -> Result<()> {
        let (offset, Port { name, spec, .. }) = of(self.inputs(), index, "input")?;
        if (array.element(), array.len()) != (spec.element, spec.elements()) {
            let (given, len) = (array.element(), array.len());
            let why = format!("input {name:?}: must be {spec}, got {len} values of {given}");
            return Err(Error::Tensor { why });
        }
        self.stage_bytes(offset, &array.to_le_bytes())
    }

    /// Output `index` of the last completed [`inference`](Self::inference). If data decided about
    /// one of its sizes, it has no more elements than there are ([`Port::spec_of`]).
    ///
    /// # Errors
    ///
    /// `Tensor` if there is none of this number; errors of [`ensure_ended`](Self::ensure_ended).
    pub fn output(&self, index: usize) -> Result<Array> {
        let (offset, port) = of(self.outputs(), index, "output")?;
        let mut bytes = vec![0; port.spec.bytes()];
        self.read_staged(offset, &mut bytes)?;
        let mut size = [0; 8];
        if let Some(offset) = self.outputs().size_of(port) {
            self.read_staged(offset, &mut size)?;
        }
        let bytes = port.cut(bytes, i64::from_le_bytes(size));
        Ok(Array::from_le_bytes(port.spec.element, &bytes))
    }

    /// Writes made-up values to all inputs.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    pub fn stage_made_up(&self, seed: Seeded) -> Result<()> {
        self.stage_bytes(0, &seed.inputs(self.inputs()))
    }

    /// Writes a part of the inputs, from byte `offset` on, where [`inference`](Self::inference)
    /// copies them from: as [`inputs`](Self::inputs) lays them out, the lowest byte of each number
    /// first.
    ///
    /// # Errors
    ///
    /// `Length` if it doesn't fit; an error of the device.
    pub fn stage_bytes(&self, offset: usize, data: &[u8]) -> Result<()> {
        inside("input bytes", offset, data.len(), self.inputs().bytes())?;
        Ok(self.device.write(&self.memory.inputs.host, offset, data)?)
    }

    /// Reads a part of what the last completed [`inference`](Self::inference) copied out, from byte
    /// `offset` on, as [`outputs`](Self::outputs) lays it out.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`stage_bytes`](Self::stage_bytes) and of
    /// [`ensure_ended`](Self::ensure_ended).
    pub fn read_staged(&self, offset: usize, data: &mut [u8]) -> Result<()> {
        inside("output bytes", offset, data.len(), self.outputs().bytes())?;
        self.ensure_ended()?;
        if data.is_empty() {
            return Ok(());
        }
        Ok(self.device.read(&self.memory.outputs.host, offset, data)?)
    }
}

impl<D: Operators> Network<D> {
    /// Refuses the outputs of the last completed inference if a loop did not end within its bound,
    /// as the [checks](Ports::checks) that it copied out say.
    ///
    /// # Errors
    ///
    /// `Unended`, with the loop; an error of the device.
    pub fn ensure_ended(&self) -> Result<()> {
        for (offset, port) in self.outputs().checks() {
            let mut left = [0; 8];
            self.device.read(&self.memory.outputs.host, offset, &mut left)?;
            if i64::from_le_bytes(left) != 0 {
                return Err(Error::Unended { at: port.name.clone() });
            }
        }
        Ok(())
    }

    /// With what [`inference`](Self::inference) begins: the copy of all inputs from the host;
    /// `None` if there are none.
    pub fn copy_in(&self) -> Option<Command<D>> {
        (!self.inputs().is_empty()).then(|| self.memory.inputs.copy(false))
    }

    /// With what [`inference`](Self::inference) ends: the copy of all outputs to the host.
    pub fn copy_out(&self) -> Command<D> {
        self.memory.outputs.copy(true)
    }

    /// A copy of a part of the inputs from the host, `bytes` bytes from byte `offset` on.
    ///
    /// # Errors
    ///
    /// `Length` if there are fewer.
    pub fn copy_part_in(&self, offset: usize, bytes: usize) -> Result<Command<D>> {
        inside("input bytes", offset, bytes, self.inputs().bytes())?;
        Ok(self.memory.inputs.copy_part(offset, bytes, false))
    }

    /// A copy of a part of the outputs to the host, likewise.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`copy_part_in`](Self::copy_part_in).
    pub fn copy_part_out(&self, offset: usize, bytes: usize) -> Result<Command<D>> {
        inside("output bytes", offset, bytes, self.outputs().bytes())?;
        Ok(self.memory.outputs.copy_part(offset, bytes, true))
    }

    /// A copy of `bytes` bytes of a buffer of the device, from the byte in `source` on, to the
    /// inputs on the device, from byte `offset` on. Whether they are inside of the buffer is noted
    /// when it runs.
    ///
    /// # Errors
    ///
    /// `Length` if they don't fit into the inputs.
    pub fn copy_from(
        &self,
        source: (&D::Buffer, usize),
        offset: usize,
        bytes: usize,
    ) -> Result<Command<D>> {
        let (from, begin) = source;
        inside("input bytes", offset, bytes, self.inputs().bytes())?;
        let (from, to) = (from.clone(), self.memory.inputs.device.clone());
        let (from_offset, to_offset) = (begin, offset);
        Ok(Command::Copy(Copy { from, from_offset, to, to_offset, bytes, to_host: false }))
    }

    /// A copy of `bytes` bytes of the outputs on the device, from byte `offset` on, to memory of
    /// the device, from the byte in `destination` on, likewise.
    ///
    /// # Errors
    ///
    /// `Length` if the outputs have fewer bytes.
    pub fn copy_to(
        &self,
        destination: (&D::Buffer, usize),
        offset: usize,
        bytes: usize,
    ) -> Result<Command<D>> {
        let (to, begin) = destination;
        inside("output bytes", offset, bytes, self.outputs().bytes())?;
        let (from, to) = (self.memory.outputs.device.clone(), to.clone());
        let (from_offset, to_offset) = (offset, begin);
        Ok(Command::Copy(Copy { from, from_offset, to, to_offset, bytes, to_host: false }))
    }
}

fn of<'a>(ports: &'a Ports, index: usize, what: &str) -> Result<(usize, &'a Port)> {
    let why = || format!("{what} {index} of {}", ports.len());
    ports.get(index).ok_or_else(|| Error::Tensor { why: why() })
}

/// The only port of a side, if it has floats.
fn only_floats<'a, D: Operators>(side: &'a Side<D>, what: &str) -> Result<&'a Port> {
    let other = |why| Err(Error::Tensor { why });
    match (side.ports.len(), side.ports.get(0)) {
        (1, Some((_, port))) if port.spec.element == Element::F32 => Ok(port),
        (1, Some((_, Port { name, spec, .. }))) => {
            other(format!("{what} {name:?} is {spec}, not of float32"))
        }
        (count, _) => other(format!("the network has {count} {what}s, not one")),
    }
}

/// Refuses a range that ends behind `want` bytes.
fn inside(what: &str, offset: usize, bytes: usize, want: usize) -> Result<()> {
    let given = offset.saturating_add(bytes);
    if given > want {
        return Err(Error::Length { what: what.into(), given, want });
    }
    Ok(())
}
