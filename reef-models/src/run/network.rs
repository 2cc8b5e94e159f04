//! A network on a device: memory of its own, weights that it shares, commands ready to submit.
//!
//! ```text
//! host input ── copy ──► input ──► launches over the arena ──► output ── copy ──► host output
//!                                     ▲
//!                              Arc<Weights>, one for all instances
//! ```
//!
//! An instance serves one inference at a time: its commands all work on the same memory.

use crate::errors::error::{Error, Result};
use crate::files::profile::Profiles;
use crate::graph::arena::{self, ArenaPlan};
use crate::graph::schedule::Step;
use crate::model::network_model::{Layer, Model};
use crate::model::tensor::Source;
use reef_core::op::{Operands, Operators, Scratch, Storage};
use reef_core::{Command, Copy, Fill, Launch};
use std::sync::Arc;

/// The constants of a network, packed for a device; any number of instances share them.
#[derive(Debug)]
pub struct Weights<D: Operators> {
    /// For each step, unless it has none.
    constants: Vec<Option<D::Buffer>>,
}

impl<D: Operators> Weights<D> {
    /// Brings all weights of `model` onto the device, one step at a time.
    ///
    /// # Errors
    ///
    /// Those of `source` and of [`Operators::pack`].
    pub fn pack(device: &D, model: &Model, source: &impl Source) -> Result<Arc<Self>> {
        let pack = |layer: &Layer| {
            if layer.op.constants() == [0, 0] {
                return Ok(None);
            }
            let (weights, bias) = layer.fold(source)?;
            Ok(Some(device.pack(&layer.op, &weights, &bias)?))
        };
        let constants = model.layers().iter().map(pack).collect::<Result<_>>()?;
        Ok(Arc::new(Self { constants }))
    }
}

/// One instance of a network.
#[derive(Debug)]
pub struct Network<D: Operators> {
    device: D,
    memory: Memory<D>,
    /// Copy in, zeros for the scratch memory if it needs any, launches, copy out.
    commands: Arc<[Command<D>]>,
    /// Of each launch.
    names: Vec<LaunchName>,
    /// Kept for as long as launches refer to them; `None` if launches keep theirs.
    _weights: Option<Arc<Weights<D>>>,
}

/// What to call a launch in traces and profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchName {
    /// Name of the step that it belongs to.
    pub step: String,
    /// Its own: the step's, with `/0`, `/1` and so on if the step takes several launches.
    pub launch: String,
}

impl<D: Operators> Network<D> {
    /// Allocates an instance of `model` and prepares its launches.
    ///
    /// # Errors
    ///
    /// `Length` if `weights` are of another network; the device's.
    pub fn new(device: &D, model: &Model, weights: &Arc<Weights<D>>) -> Result<Self> {
        let (given, want) = (weights.constants.len(), model.layers().len());
        if given != want {
            return Err(Error::Length { what: "packed steps".into(), given, want });
        }
        let memory = Memory::alloc(device, model)?;
        let (mut launches, mut names) = (Vec::new(), Vec::new());
        let steps = model.graph().steps.iter().zip(model.layers()).zip(&weights.constants);
        for ((step, layer), constants) in steps {
            let operands = memory.operands(step, constants.as_ref());
            let made = device.operator(&layer.op, &operands)?;
            names.extend(launch_names(&step.name, made.len()));
            launches.extend(made);
        }
        let network = Self::of_launches(device, memory, launches, names);
        Ok(Self { _weights: Some(weights.clone()), ..network })
    }

    /// Of launches that keep their weights.
    pub(crate) fn of_launches(
        device: &D,
        memory: Memory<D>,
        launches: Vec<Launch<D>>,
        names: Vec<LaunchName>,
    ) -> Self {
        let before = [Some(memory.copy_in()), memory.zero_scratch()].into_iter().flatten();
        let launches = launches.into_iter().map(Command::Launch);
        let commands = before.chain(launches).chain([memory.copy_out()]).collect();
        Self { device: device.clone(), memory, commands, names, _weights: None }
    }

    /// Lets padding plan with what was measured: attaches profiles by the name of the launch.
    ///
    /// Launches that `profiles` doesn't name keep what they have.
    #[must_use]
    pub fn with_profiles(mut self, profiles: &Profiles) -> Self {
        let mut commands = self.commands.to_vec();
        let launches = commands.iter_mut().filter(|command| matches!(command, Command::Launch(_)));
        for (command, name) in launches.zip(&self.names) {
            if let (Command::Launch(launch), Some(profile)) =
                (&*command, profiles.get(&name.launch))
            {
                *command = Command::Launch(launch.clone().with_profile(profile.clone()));
            }
        }
        self.commands = commands.into();
        self
    }

    /// The launches as commands: from the input on the device to the output on the device.
    pub fn commands(&self) -> &[Command<D>] {
        &self.commands[1..self.commands.len() - 1]
    }

    /// The launches themselves, in order.
    pub fn launches(&self) -> impl Iterator<Item = &Launch<D>> {
        self.commands.iter().filter_map(|command| match command {
            Command::Launch(launch) => Some(launch),
            _ => None,
        })
    }

    /// One whole inference: copy in from [`stage_input`](Self::stage_input), launches, copy out to
    /// [`staged_output`](Self::staged_output). The same commands every time.
    pub fn inference(&self) -> Arc<[Command<D>]> {
        self.commands.clone()
    }

    /// One whole [`inference`](Self::inference) in graphs of up to `most` commands, which cost the host
    /// one launch each. A device without graphs gets the commands one by one.
    ///
    /// Real-time work wants one graph. Best-effort work wants short ones: what was launched when it is
    /// preempted has to come to nothing, kernel by kernel.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn graphs(&self, most: usize) -> Result<Arc<[Command<D>]>> {
        self.in_graphs(self.commands.clone(), most)
    }

    /// As [`graphs`](Self::graphs), but input and output are copied from and to `host`, from these bytes on.
    ///
    /// # Errors
    ///
    /// The device's, which are noted when a range is not inside of `host`.
    pub fn graphs_on(
        &self,
        host: &D::Buffer,
        (input, output): (usize, usize),
        most: usize,
    ) -> Result<Arc<[Command<D>]>> {
        let mut commands = self.commands.to_vec();
        if let Some(Command::Copy(copy)) = commands.first_mut() {
            (copy.from, copy.from_offset) = (host.clone(), input);
        }
        if let Some(Command::Copy(copy)) = commands.last_mut() {
            (copy.to, copy.to_offset) = (host.clone(), output);
        }
        self.in_graphs(commands.into(), most)
    }

    fn in_graphs(&self, commands: Arc<[Command<D>]>, most: usize) -> Result<Arc<[Command<D>]>> {
        let graph = |commands: &[Command<D>]| self.device.graph(commands).map(Command::Graph);
        if most <= 1 {
            return Ok(commands);
        }
        match commands.chunks(most).map(graph).collect() {
            Err(reef_core::Error::Unsupported { .. }) => Ok(commands),
            graphs => Ok(graphs?),
        }
    }

    /// Names of the launches, in order.
    pub fn step_names(&self) -> &[LaunchName] {
        &self.names
    }

    /// Writes the input where [`inference`](Self::inference) copies it from.
    ///
    /// # Errors
    ///
    /// `Length` if `input` is not as long as the network's; the device's.
    pub fn stage_input(&self, input: &[f32]) -> Result<()> {
        self.write(&self.memory.host_input, input)
    }

    /// The output that the last completed [`inference`](Self::inference) copied out.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn staged_output(&self) -> Result<Vec<f32>> {
        self.read(&self.memory.host_output)
    }

    /// Writes a part of the input, from byte `offset` on, where [`inference`](Self::inference) copies
    /// it from: f32 in the machine's order.
    ///
    /// # Errors
    ///
    /// `Length` if it doesn't fit; the device's.
    pub fn stage_bytes(&self, offset: usize, data: &[u8]) -> Result<()> {
        inside("input bytes", offset, data.len(), self.memory.input_bytes)?;
        Ok(self.device.write(&self.memory.host_input, offset, data)?)
    }

    /// Reads a part, from byte `offset` on, of what the last completed [`inference`](Self::inference)
    /// copied out: f32 in the machine's order.
    ///
    /// # Errors
    ///
    /// As [`stage_bytes`](Self::stage_bytes).
    pub fn read_staged(&self, offset: usize, data: &mut [u8]) -> Result<()> {
        inside("output bytes", offset, data.len(), self.memory.output_bytes)?;
        Ok(self.device.read(&self.memory.host_output, offset, data)?)
    }

    /// Values of the input.
    pub fn input_len(&self) -> usize {
        self.memory.input_bytes / size_of::<f32>()
    }

    /// Values of the output.
    pub fn output_len(&self) -> usize {
        self.memory.output_bytes / size_of::<f32>()
    }

    /// Device memory of all activations, input and output aside; steps share its parts.
    pub fn arena(&self) -> &D::Buffer {
        &self.memory.arena
    }

    /// Bytes of device memory for activations, input and output aside.
    pub fn arena_bytes(&self) -> usize {
        self.memory.plan.bytes
    }

    fn write(&self, buffer: &D::Buffer, input: &[f32]) -> Result<()> {
        let (given, want) = (input.len(), self.input_len());
        if given != want {
            return Err(Error::Length { what: "input".into(), given, want });
        }
        let bytes: Vec<u8> = input.iter().flat_map(|value| value.to_ne_bytes()).collect();
        Ok(self.device.write(buffer, 0, &bytes)?)
    }

    fn read(&self, buffer: &D::Buffer) -> Result<Vec<f32>> {
        let mut bytes = vec![0; self.memory.output_bytes];
        self.device.read(buffer, 0, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok(words.iter().map(|&word| f32::from_ne_bytes(word)).collect())
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

/// The memory of one instance.
#[derive(Debug)]
pub(crate) struct Memory<D: Operators> {
    pub(crate) plan: ArenaPlan,
    pub(crate) arena: D::Buffer,
    pub(crate) input: D::Buffer,
    pub(crate) output: D::Buffer,
    pub(crate) host_input: D::Buffer,
    pub(crate) host_output: D::Buffer,
    /// What all steps share, one after the other; `None` if none wants any.
    pub(crate) scratch: Option<D::Buffer>,
    pub(crate) zeroed_bytes: usize,
    pub(crate) input_bytes: usize,
    pub(crate) output_bytes: usize,
    /// Which storage the output is; the other one outside the arena is the input.
    pub(crate) output_storage: Option<usize>,
}

impl<D: Operators> Memory<D> {
    fn alloc(device: &D, model: &Model) -> Result<Self> {
        let plan = arena::plan(model.graph());
        let [input_bytes, output_bytes] =
            [model.input(), model.output()].map(|tensor| tensor.elements() * size_of::<f32>());
        let wanted = model.layers().iter().map(|layer| device.scratch(&layer.op));
        let scratch = wanted.fold(Scratch::default(), Scratch::max);
        Ok(Self {
            scratch: (scratch.bytes > 0).then(|| device.alloc(scratch.bytes)).transpose()?,
            zeroed_bytes: scratch.zeroed,
            arena: device.alloc(plan.bytes)?,
            input: device.alloc(input_bytes)?,
            output: device.alloc(output_bytes)?,
            host_input: device.alloc_host(input_bytes)?,
            host_output: device.alloc_host(output_bytes)?,
            output_storage: model.graph().storage("output"),
            plan,
            input_bytes,
            output_bytes,
        })
    }

    fn storage(&self, storage: usize) -> Storage<'_, D> {
        match self.plan.offsets[storage] {
            Some(offset) => Storage { buffer: &self.arena, offset },
            None if Some(storage) == self.output_storage => {
                Storage { buffer: &self.output, offset: 0 }
            }
            None => Storage { buffer: &self.input, offset: 0 },
        }
    }

    fn operands<'a>(&'a self, step: &Step, constants: Option<&'a D::Buffer>) -> Operands<'a, D> {
        Operands {
            input: self.storage(step.reads[0]),
            residual: step.reads.get(1).map(|&residual| self.storage(residual)),
            output: self.storage(step.writes),
            constants,
            scratch: self.scratch.as_ref().map(|buffer| Storage { buffer, offset: 0 }),
        }
    }

    /// Needed if an inference before was given up halfway; otherwise it is zero.
    fn zero_scratch(&self) -> Option<Command<D>> {
        let buffer = self.scratch.as_ref().filter(|_| self.zeroed_bytes > 0)?.clone();
        Some(Command::Fill(Fill { buffer, offset: 0, bytes: self.zeroed_bytes, word: 0 }))
    }

    fn copy_in(&self) -> Command<D> {
        Command::Copy(Copy {
            from: self.host_input.clone(),
            from_offset: 0,
            to: self.input.clone(),
            to_offset: 0,
            bytes: self.input_bytes,
            to_host: false,
        })
    }

    fn copy_out(&self) -> Command<D> {
        Command::Copy(Copy {
            from: self.output.clone(),
            from_offset: 0,
            to: self.host_output.clone(),
            to_offset: 0,
            bytes: self.output_bytes,
            to_host: true,
        })
    }
}

pub(crate) fn launch_names(step: &str, launches: usize) -> impl Iterator<Item = LaunchName> {
    let name = move |i| match launches {
        1 => step.to_owned(),
        _ => format!("{step}/{i}"),
    };
    (0..launches).map(move |i| LaunchName { step: step.into(), launch: name(i) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_called_like_its_step_unless_there_are_several() {
        let launches = |n| launch_names("fc", n).map(|name| name.launch).collect::<Vec<_>>();
        assert_eq!(launches(1), ["fc"]);
        assert_eq!(launches(2), ["fc/0", "fc/1"]);
    }
}
