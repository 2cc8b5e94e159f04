//! The memory of one instance of a network, on both sides, and the launches that it serves.

use super::rounded::rounded;
use crate::errors::error::{Error, Result};
use crate::graph::arena::{self, ArenaPlan};
use crate::graph::order;
use crate::model::image_model::ImageModel;
use crate::model::ports::Ports;
use crate::tensors::step::TensorStep;
use reef_core::{Command, Copy, Fill};
use reef_op::rounding::Rounded;
use reef_op::{Op, Operators, Scratch, Storage};

/// Launches of the steps of a network for images.
#[derive(Debug)]
pub(crate) struct LaunchPlan {
    /// Numbers of each step that are rounded.
    pub(crate) rounded: Vec<Rounded>,
    /// Steps in the order of their launches, those together that share one.
    pub(crate) groups: Vec<Vec<usize>>,
}

impl LaunchPlan {
    /// The fastest on `device`, as far as that knows.
    pub(crate) fn new<D: Operators>(device: &D, model: &ImageModel) -> Self {
        let rounded = rounded(device, model);
        let count = |steps: &[usize]| {
            let grouped = device.grouped_operators(&ops(model, &rounded, steps));
            grouped.map_or(1, |(count, _)| count)
        };
        let groups = order::grouped(model.graph(), count);
        Self { rounded, groups }
    }

    /// Launches of its own for each step, in their order.
    pub(crate) fn one_by_one<D: Operators>(device: &D, model: &ImageModel) -> Self {
        Self { rounded: rounded(device, model), groups: order::one_by_one(model.graph()) }
    }

    /// Places of activations.
    pub(crate) fn arena(&self, model: &ImageModel) -> ArenaPlan {
        arena::plan_in_groups(model.graph(), &self.groups)
    }

    /// Scratch memory of the launches. They share it, so it is that of the largest.
    pub(crate) fn scratch<D: Operators>(&self, device: &D, model: &ImageModel) -> Scratch {
        let wanted = self.groups.iter().map(|steps| {
            let ops = ops(model, &self.rounded, steps);
            let each = ops.iter().map(|&(op, rounded)| device.scratch(op, rounded));
            match device.grouped_operators(&ops) {
                Some((_, scratch)) => scratch,
                None => each.fold(Scratch::default(), Scratch::max),
            }
        });
        wanted.fold(Scratch::default(), Scratch::max)
    }
}

/// The operations of these steps.
fn ops<'a>(model: &'a ImageModel, rounded: &[Rounded], steps: &[usize]) -> Vec<(&'a Op, Rounded)> {
    steps.iter().map(|&step| (&model.layers()[step].op, rounded[step])).collect()
}

/// Scratch memory of a network of tensors.
pub(crate) fn tensor_scratch<D: Operators>(device: &D, steps: &[TensorStep]) -> Scratch {
    let wanted = steps.iter().map(|step| device.tensor_scratch(&step.op));
    wanted.fold(Scratch::default(), Scratch::max)
}

/// Activations, inputs and outputs, and those two again on the host.
#[derive(Debug)]
pub(crate) struct Memory<D: Operators> {
    pub(crate) plan: ArenaPlan,
    pub(crate) arena: D::Buffer,
    pub(crate) inputs: Side<D>,
    pub(crate) outputs: Side<D>,
    /// Scratch memory of all steps, one after the other; `None` if no step needs any.
    pub(crate) scratch: Option<D::Buffer>,
    pub(crate) scratch_bytes: usize,
    pub(crate) zeroed_bytes: usize,
}

/// A part of the memory of an instance.
#[derive(Debug)]
pub struct InstanceRegion<'a, D: Operators> {
    /// Name for people.
    pub name: &'static str,
    /// Memory of the device, or of the host.
    pub buffer: &'a D::Buffer,
    /// Its size.
    pub bytes: usize,
    /// Its contents count when no inference runs: inputs and outputs. Everything else is written
    /// by an inference before it is read.
    pub lasts: bool,
}

/// All inputs, or all outputs.
#[derive(Debug)]
pub(crate) struct Side<D: Operators> {
    pub(crate) ports: Ports,
    pub(crate) device: D::Buffer,
    pub(crate) host: D::Buffer,
}

impl<D: Operators> Side<D> {
    fn alloc(device: &D, ports: Ports) -> Result<Self> {
        let bytes = ports.bytes().max(1); // not every device allocates nothing
        Ok(Self { device: device.alloc(bytes)?, host: device.alloc_host(bytes)?, ports })
    }

    /// Place of a storage, if it is one of these.
    fn storage(&self, storage: usize) -> Option<Storage<'_, D>> {
        let offset = self.ports.offset_of(storage)?;
        Some(Storage { buffer: &self.device, offset })
    }

    /// A copy from one side to the other: of a byte at least, which is there.
    pub(super) fn copy(&self, to_host: bool) -> Command<D> {
        self.copy_part(0, self.ports.bytes().max(1), to_host)
    }

    /// A copy of a part from one side to the other.
    pub(super) fn copy_part(&self, offset: usize, bytes: usize, to_host: bool) -> Command<D> {
        let (from, to) =
            if to_host { (&self.device, &self.host) } else { (&self.host, &self.device) };
        let (from, to) = (from.clone(), to.clone());
        Command::Copy(Copy { from, from_offset: offset, to, to_offset: offset, bytes, to_host })
    }
}

impl<D: Operators> Memory<D> {
    pub(crate) fn alloc(
        device: &D,
        plan: ArenaPlan,
        [inputs, outputs]: [Ports; 2],
        scratch: Scratch,
    ) -> Result<Self> {
        Ok(Self {
            scratch: (scratch.bytes > 0).then(|| device.alloc(scratch.bytes)).transpose()?,
            scratch_bytes: scratch.bytes,
            zeroed_bytes: scratch.zeroed,
            arena: device.alloc(plan.bytes.max(1))?,
            inputs: Side::alloc(device, inputs)?,
            outputs: Side::alloc(device, outputs)?,
            plan,
        })
    }

    /// Place of an activation, an input or an output.
    ///
    /// # Errors
    ///
    /// `Tensor` if it is none of these.
    pub(crate) fn storage(&self, storage: usize) -> Result<Storage<'_, D>> {
        if let Some(offset) = self.plan.offsets.get(storage).copied().flatten() {
            return Ok(Storage { buffer: &self.arena, offset });
        }
        let port = self.outputs.storage(storage).or_else(|| self.inputs.storage(storage));
        port.ok_or_else(|| Error::Tensor { why: format!("storage {storage} has no memory") })
    }

    /// Scratch memory that steps share.
    pub(crate) fn scratch(&self) -> Option<Storage<'_, D>> {
        self.scratch.as_ref().map(|buffer| Storage { buffer, offset: 0 })
    }

    /// All of it.
    pub(crate) fn regions(&self) -> Vec<InstanceRegion<'_, D>> {
        let of = |name, buffer, bytes, lasts| InstanceRegion { name, buffer, bytes, lasts };
        let (input, output) = (self.inputs.ports.bytes(), self.outputs.ports.bytes());
        let scratch = self.scratch.as_ref();
        let scratch = scratch.map(|buffer| of("scratch", buffer, self.scratch_bytes, false));
        [
            of("arena", &self.arena, self.plan.bytes, false),
            of("input", &self.inputs.device, input, true),
            of("host input", &self.inputs.host, input, true),
            of("output", &self.outputs.device, output, true),
            of("host output", &self.outputs.host, output, true),
        ]
        .into_iter()
        .chain(scratch)
        .collect()
    }

    /// Needed if an inference before was abandoned halfway; otherwise it is zero.
    fn zero_scratch(&self) -> Option<Command<D>> {
        let buffer = self.scratch.as_ref().filter(|_| self.zeroed_bytes > 0)?.clone();
        Some(Command::Fill(Fill { buffer, offset: 0, bytes: self.zeroed_bytes, word: 0 }))
    }

    /// An inference of these launches: copy in, zeros for the scratch memory if it needs any,
    /// launches, copy out. Something is copied even if all outputs are empty, because a caller
    /// can't wait for an inference without commands.
    pub(crate) fn inference(&self, launches: impl Iterator<Item = Command<D>>) -> Vec<Command<D>> {
        let copy_in = (!self.inputs.ports.is_empty()).then(|| self.inputs.copy(false));
        let before = [copy_in, self.zero_scratch()].into_iter().flatten();
        before.chain(launches).chain([self.outputs.copy(true)]).collect()
    }
}
