//! A task with all that decides about it: its commands, its memory, and digests of both.

use crate::digest::{Digest, DigestWriter};
use crate::format::manifest::DeviceFacts;
use reef_core::{Command, Device};
use reef_models::{Model, Network};
use reef_op::Operators;
use std::fmt::Write;
use std::sync::Arc;

/// Memory of a task.
#[derive(Debug, Clone)]
pub struct Region<D: Device> {
    /// Name for people.
    pub name: String,
    /// Memory of the device or of the host.
    pub buffer: D::Buffer,
    /// Its size.
    pub bytes: usize,
    /// Its contents count between tasks too.
    pub lasts: bool,
}

/// A task that a queue runs any number of times, with its memory.
///
/// [`of_network`](Self::of_network) makes one of a network. Other work fills in the fields.
#[derive(Debug, Clone)]
pub struct Work<'a, D: Device> {
    /// Device of the queue.
    pub device: &'a D,
    /// Name for people.
    pub name: String,
    /// Commands of the task, of which the queue has copies.
    pub task: Arc<[Command<D>]>,
    /// All memory that the commands write, and inputs that others have written.
    pub memory: Vec<Region<D>>,
    /// Digest of what the commands compute.
    pub model: Digest,
    /// Digest of constant memory that they read.
    pub weights: Digest,
    /// Digest of the launches and of the layout of their memory: [`plan`].
    pub plan: Digest,
}

impl<'a, D: Operators> Work<'a, D> {
    /// Whole inferences of an instance of `model`, from its input on the host to its output there.
    ///
    /// # Panics
    ///
    /// Never: writing to a digest has no errors.
    pub fn of_network(device: &'a D, model: &Model, network: &Network<D>) -> Self {
        let (mut structure, mut constants) = <(DigestWriter, DigestWriter)>::default();
        model.write_structure(&mut structure).expect("digesting has no errors");
        model.write_constants(&mut constants).expect("digesting has no errors");
        let task = network.inference();
        let names = network.step_names().iter().map(|name| name.launch.as_str());
        let layout = format!("{:?}", network.arena_plan());
        let memory = network.regions().into_iter().map(|region| Region {
            name: region.name.into(),
            buffer: region.buffer.clone(),
            bytes: region.bytes,
            lasts: region.lasts,
        });
        Self {
            device,
            name: model.name().into(),
            memory: memory.collect(),
            model: structure.digest(),
            weights: constants.digest(),
            plan: plan(device, &task, names, &layout),
            task,
        }
    }
}

impl<D: Device> Work<'_, D> {
    /// The device as a snapshot knows it.
    pub(crate) fn facts(&self) -> DeviceFacts {
        DeviceFacts { backend: D::NAME.into(), name: self.device.info().name }
    }
}

/// Digest of how a device runs a task: kind, grid, block and resources of each command, the name of
/// each launch, the layout of memory in words of the caller, and on the software device the
/// processor's instructions.
///
/// # Panics
///
/// Never: writing to a digest has no errors.
pub fn plan<'n, D: Device>(
    device: &D,
    task: &[Command<D>],
    names: impl IntoIterator<Item = &'n str>,
    layout: &str,
) -> Digest {
    let mut text = DigestWriter::default();
    let mut names = names.into_iter();
    let mut write = |command: &Command<D>| match command {
        Command::Launch(launch) => {
            let (grid, block) = (launch.grid(), launch.block());
            let (name, resources) = (names.next().unwrap_or_default(), device.resources(launch));
            writeln!(text, "launch {name:?} {grid:?} {block:?} {resources:?}")
        }
        Command::Copy(copy) => {
            writeln!(text, "copy {} {} {}", copy.from_offset, copy.to_offset, copy.bytes)
        }
        Command::Fill(fill) => writeln!(text, "fill {} {} {}", fill.offset, fill.bytes, fill.word),
        Command::Graph(_) => writeln!(text, "graph"),
        Command::Record(_) | Command::Wait(_) => writeln!(text, "event"),
        Command::Host(_) => writeln!(text, "host"),
    };
    task.iter().try_for_each(&mut write).expect("digesting has no errors");
    writeln!(text, "{layout} {}", processor(D::NAME)).expect("digesting has no errors");
    text.digest()
}

/// Instructions that decide about the kernels of the software device, or how they round.
fn processor(backend: &str) -> &'static str {
    match backend {
        "cpu" => host(),
        _ => "",
    }
}

#[cfg(target_arch = "x86_64")]
fn host() -> &'static str {
    let has_wide = std::arch::is_x86_feature_detected!("avx512f");
    if has_wide { "x86_64 avx512f" } else { "x86_64" }
}

#[cfg(not(target_arch = "x86_64"))]
fn host() -> &'static str {
    std::env::consts::ARCH
}
