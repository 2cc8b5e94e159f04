//! A network on a device: memory of its own, weights that it shares, commands ready to submit.
//!
//! ```text
//! host input ── copy ──► input ──► launches over the arena ──► output ── copy ──► host output
//!                                     ▲
//!                              Arc<Weights>, one for all instances
//! ```
//!
//! An instance serves one inference at a time: its commands all work on the same memory.

use super::constants::{PackedWeights, TensorWeights};
use super::launch_name::{LaunchName, launch_names, names_of_steps};
use super::memory::{InstanceRegion, LaunchPlan, Memory, tensor_scratch};
use crate::errors::error::{Error, Result};
use crate::files::profile::Profiles;
use crate::graph::arena::ArenaPlan;
use crate::graph::schedule::Step;
use crate::model::image_model::ImageModel;
use crate::model::ports::Ports;
use crate::tensors::groups::groups;
use crate::tensors::model::TensorModel;
use crate::tensors::step::TensorStep;
use reef_core::{Command, Launch};
use reef_op::rounding::Rounded;
use reef_op::tensor::Kind;
use reef_op::{Operands, Operators, Storage, TensorOperands};
use std::sync::Arc;

/// One instance of a network.
///
/// It comes from a [`Model`](crate::Model) at once, or from [`Weights`](crate::Weights) that
/// several instances share.
///
/// ```
/// use reef_op::Operators;
/// use reef_core::{RtClient, Task};
/// use reef_models::{Model, Result};
///
/// fn infer<D: Operators>(device: &D, client: &mut RtClient<D>, x: &[f32]) -> Result<Vec<f32>> {
///     let network = Model::open("resnet18").load(device)?;
///     network.stage_input(x)?;
///     client.run(&Task::new(network.inference())?)?;
///     network.staged_output()
/// }
/// ```
#[derive(Debug)]
pub struct Network<D: Operators> {
    pub(super) device: D,
    pub(crate) memory: Memory<D>,
    /// Copy in, zeros for the scratch memory if it needs any, launches, copy out.
    commands: Arc<[Command<D>]>,
    /// Of each launch.
    names: Vec<LaunchName>,
    /// LaunchConstants for as long as launches refer to them.
    _weights: LaunchConstants<D>,
}

/// Constants that launches refer to.
#[derive(Debug)]
enum LaunchConstants<D: Operators> {
    Packed(#[expect(dead_code, reason = "it is only kept")] Arc<PackedWeights<D>>),
    Uploaded(#[expect(dead_code, reason = "it is only kept")] Arc<TensorWeights<D>>),
    /// Launches keep theirs.
    ByLaunches,
}

impl<D: Operators> Network<D> {
    /// Allocates an instance of `model` and prepares its launches.
    ///
    /// # Errors
    ///
    /// `Length` if `weights` are of another network; an error of the device.
    pub(crate) fn of_images(
        device: &D,
        model: &ImageModel,
        weights: &Arc<PackedWeights<D>>,
    ) -> Result<Self> {
        Self::of_plan(device, model, weights, &LaunchPlan::new(device, model))
    }

    /// As [`of_images`](Self::of_images), with launches of their own for each step, in their order.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`of_images`](Self::of_images).
    pub(crate) fn one_by_one(
        device: &D,
        model: &ImageModel,
        weights: &Arc<PackedWeights<D>>,
    ) -> Result<Self> {
        Self::of_plan(device, model, weights, &LaunchPlan::one_by_one(device, model))
    }

    fn of_plan(
        device: &D,
        model: &ImageModel,
        weights: &Arc<PackedWeights<D>>,
        plan: &LaunchPlan,
    ) -> Result<Self> {
        let (given, want) = (weights.constants.len(), model.layers().len());
        if given != want {
            return Err(Error::Length { what: "packed steps".into(), given, want });
        }
        let ports = [model.input_port(), model.output_port()].map(|port| Ports::new([port]));
        let (arena, scratch) = (plan.arena(model), plan.scratch(device, model));
        let memory = Memory::alloc(device, arena, ports, scratch)?;
        let (mut launches, mut names) = (Vec::new(), Vec::new());
        let made = image_launches(device, &memory, model, weights, plan)?;
        let name = |&step: &usize| model.graph().steps[step].name.as_str();
        for (group, made) in plan.groups.iter().zip(made) {
            let steps: Vec<_> = group.iter().map(name).collect();
            names.extend(launch_names(&steps.join("+"), made.len()));
            launches.extend(made);
        }
        let network = Self::of_launches(device, memory, launches, names);
        Ok(Self { _weights: LaunchConstants::Packed(weights.clone()), ..network })
    }

    /// Allocates an instance of a network of tensors and prepares its launches.
    ///
    /// # Errors
    ///
    /// `Refused` names the node whose operation the device has no kernel for; `Tensor` if `weights`
    /// are of another network; an error of the device.
    pub(crate) fn of_tensors(
        device: &D,
        model: &TensorModel,
        weights: &Arc<TensorWeights<D>>,
    ) -> Result<Self> {
        let ports = [&model.inputs, &model.outputs].map(|ports| Ports::new(ports.iter().cloned()));
        let steps = model.steps_on(device);
        let scratch = tensor_scratch(device, &steps);
        let groups = groups(device, &steps);
        let plan = model.arena_of(groups.iter().copied());
        let memory = Memory::alloc(device, plan, ports, scratch)?;
        let (mut launches, mut counts) = (Vec::new(), Vec::new());
        let made = tensor_launches(device, &memory, weights, &groups)?;
        for (group, made) in groups.iter().zip(made) {
            counts.push((group[0].name.as_str(), made.len()));
            launches.extend(made);
        }
        let names = names_of_steps(&counts);
        let network = Self::of_launches(device, memory, launches, names);
        Ok(Self { _weights: LaunchConstants::Uploaded(weights.clone()), ..network })
    }

    /// Of launches that keep their weights.
    pub(crate) fn of_launches(
        device: &D,
        memory: Memory<D>,
        launches: Vec<Launch<D>>,
        names: Vec<LaunchName>,
    ) -> Self {
        let commands = memory.inference(launches.into_iter().map(Command::Launch)).into();
        Self {
            device: device.clone(),
            memory,
            commands,
            names,
            _weights: LaunchConstants::ByLaunches,
        }
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
        let is_copy = |command: Option<&Command<D>>| matches!(command, Some(Command::Copy(_)));
        let begin = usize::from(is_copy(self.commands.first()));
        let end = self.commands.len() - usize::from(is_copy(self.commands.last()));
        self.commands.get(begin..end).unwrap_or_default() // nothing between them, if one is both
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

    /// One whole [`inference`](Self::inference) in graphs of up to `most` commands, which cost the
    /// host one launch each. A device without graphs gets the commands one by one.
    ///
    /// Real-time work wants one graph. Best-effort work wants short ones: what was launched when it
    /// is preempted has to come to nothing, kernel by kernel.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    pub fn graphs(&self, most: usize) -> Result<Arc<[Command<D>]>> {
        self.in_graphs(self.commands.clone(), most)
    }

    /// As [`graphs`](Self::graphs), of the launches alone: from the input on the device to the
    /// output there.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    pub fn device_graphs(&self, most: usize) -> Result<Arc<[Command<D>]>> {
        self.in_graphs(self.commands().into(), most)
    }

    /// As [`graphs`](Self::graphs), but inputs and outputs are copied from and to `host`, from the
    /// bytes in `offsets` on: the first is of the inputs, the second of the outputs.
    ///
    /// # Errors
    ///
    /// An error of the device, also if a range is not inside of `host`.
    pub fn graphs_on(
        &self,
        host: &D::Buffer,
        offsets: (usize, usize),
        most: usize,
    ) -> Result<Arc<[Command<D>]>> {
        let (input, output) = offsets;
        let mut commands = self.commands.to_vec();
        for command in &mut commands {
            match command {
                Command::Copy(copy) if copy.to_host => {
                    (copy.to, copy.to_offset) = (host.clone(), output);
                }
                Command::Copy(copy) => (copy.from, copy.from_offset) = (host.clone(), input),
                _ => {}
            }
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

    /// All memory that is the instance's own.
    pub fn regions(&self) -> Vec<InstanceRegion<'_, D>> {
        self.memory.regions()
    }

    /// Places of activations in the [`arena`](Self::arena).
    pub fn arena_plan(&self) -> &ArenaPlan {
        &self.memory.plan
    }

    /// Device memory of all activations except input and output. Steps share its parts.
    pub fn arena(&self) -> &D::Buffer {
        &self.memory.arena
    }

    /// Bytes of device memory for activations except input and output.
    pub fn arena_bytes(&self) -> usize {
        self.memory.plan.bytes
    }
}

/// The launches of each group of steps of an image's network.
fn image_launches<D: Operators>(
    device: &D,
    memory: &Memory<D>,
    model: &ImageModel,
    weights: &PackedWeights<D>,
    plan: &LaunchPlan,
) -> Result<Vec<Vec<Launch<D>>>> {
    let mut ops = Vec::with_capacity(plan.groups.len());
    for group in &plan.groups {
        let of = group.iter().map(|&step| {
            let (constants, rounded) = (weights.constants[step].as_ref(), plan.rounded[step]);
            let (step, layer) = (&model.graph().steps[step], &model.layers()[step]);
            Ok((&layer.op, operands(memory, step, constants, rounded)?))
        });
        ops.push(of.collect::<Result<Vec<_>>>()?);
    }
    Ok(device.operator_groups(&ops)?)
}

/// Operands of a step of an image's network.
fn operands<'a, D: Operators>(
    memory: &'a Memory<D>,
    step: &Step,
    constants: Option<&'a D::Buffer>,
    rounded: Rounded,
) -> Result<Operands<'a, D>> {
    let residual = step.reads.get(1).map(|&residual| memory.storage(residual));
    Ok(Operands {
        input: memory.storage(step.reads[0])?,
        residual: residual.transpose()?,
        output: memory.storage(step.writes)?,
        constants,
        scratch: memory.scratch(),
        rounded,
    })
}

/// The launches of steps of a network of tensors that run side by side.
fn tensor_launches<D: Operators>(
    device: &D,
    memory: &Memory<D>,
    weights: &TensorWeights<D>,
    groups: &[&[TensorStep]],
) -> Result<Vec<Vec<Launch<D>>>> {
    let mut ops = Vec::with_capacity(groups.len());
    for group in groups {
        let of = group
            .iter()
            .map(|step| Ok((&step.op, tensor_operands(device, memory, weights, step)?)));
        ops.push(of.collect::<Result<Vec<_>>>()?);
    }
    device.tensor_groups(&ops).map_err(|(group, why)| match why {
        reef_core::Error::Unsupported { .. } => {
            Error::Refused { node: groups[group][0].name.clone(), why }
        }
        other => other.into(),
    })
}

/// Operands of a step of a network of tensors.
fn tensor_operands<'a, D: Operators>(
    device: &D,
    memory: &'a Memory<D>,
    weights: &'a TensorWeights<D>,
    step: &TensorStep,
) -> Result<TensorOperands<'a, D>> {
    let packed = match &step.op.kind {
        Kind::Eight(_) => weights.eight(step).map(|buffer| (1, buffer)),
        _ => device.packed_input(&step.op).and_then(|packed| {
            Some((packed.input, weights.packed(step.reads[packed.input], &packed)?))
        }),
    };
    let input = |(k, &read): (usize, &usize)| match packed.filter(|(input, _)| *input == k) {
        Some((_, buffer)) => Ok(Storage { buffer, offset: 0 }),
        None => match weights.buffer(read) {
            Some(buffer) => Ok(Storage { buffer, offset: 0 }),
            None => memory.storage(read),
        },
    };
    let inputs = step.reads.iter().enumerate().map(input).collect::<Result<_>>()?;
    let output = memory.storage(step.writes)?;
    Ok(TensorOperands { inputs, output, packed: packed.is_some(), scratch: memory.scratch() })
}
