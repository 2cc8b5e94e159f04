//! Reads the storages of a network while it runs on a device.
//!
//! Steps share memory, so a storage is read right after the last step that writes it. A
//! `ScaleShift` by 1 and 0 makes floats of the device's own elements. It takes each pixel for a
//! image, because not every device can turn an image into planes. So values keep the order that
//! the device has them in, image after image.

use super::scales::inner_storages;
use crate::errors::error::Result;
use crate::model::image_model::ImageModel;
use crate::model::tensor::Source;
use crate::run::constants::PackedWeights;
use crate::run::network::Network;
use reef_core::{Command, Priority, Queue, Seq, issue};
use reef_op::rounding::Rounded;
use reef_op::{Layout, Op, Operands, Operators, ScaleShift, Scratch, Storage, Tensor};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// An instance of a network whose storages are read.
pub(crate) struct Probes<D: Operators> {
    line: Line<D>,
    device: D,
    network: Network<D>,
    /// By the number of launches after which they are due.
    probes: HashMap<usize, Vec<Probe<D>>>,
    /// Values that the last of them has copied.
    copied: D::Buffer,
}

/// A storage, and the launches that copy it.
struct Probe<D: Operators> {
    storage: String,
    elements: usize,
    launches: Vec<Command<D>>,
}

/// Commands one after the other.
struct Line<D: Operators> {
    queue: D::Queue,
    next: u64,
}

impl<D: Operators> Probes<D> {
    /// Makes an instance with weights of `source`.
    pub(crate) fn new(device: &D, model: &ImageModel, source: &impl Source) -> Result<Self> {
        let weights = PackedWeights::pack(device, model, source)?;
        let network = Network::one_by_one(device, model, &weights)?;
        let copies: Vec<_> = inner_storages(model)
            .filter_map(|at| Some((at, Op::ScaleShift(copy_of(model, at)?))))
            .collect();
        let most = copies.iter().map(|(_, op)| op.output().elements()).max().unwrap_or(1);
        let copied = device.alloc(most * size_of::<f32>())?;
        let maker = Maker::new(device, &network, &copied, &copies)?;
        let ends = ends(model, &network);
        let mut probes: HashMap<usize, Vec<Probe<D>>> = HashMap::new();
        for (at, op) in &copies {
            let storage = model.graph().storages[*at].name.clone();
            let probe =
                Probe { storage, elements: op.output().elements(), launches: maker.make(*at, op)? };
            probes.entry(ends[*at]).or_default().push(probe);
        }
        let line = Line { queue: device.queue(Priority::BestEffort, None)?, next: 0 };
        Ok(Self { line, device: device.clone(), network, probes, copied })
    }

    /// Runs the network once; `visit` gets the name and the values of each storage.
    ///
    /// # Errors
    ///
    /// `Length` if the input is not as long as the network's; the errors of `visit`; an error of
    /// the device.
    pub(crate) fn run(
        &mut self,
        input: &[f32],
        mut visit: impl FnMut(&str, &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        self.network.stage_input(input)?;
        let mut launched = 0;
        for command in self.network.inference().iter() {
            self.line.issue(command)?;
            if !matches!(command, Command::Launch(_)) {
                continue;
            }
            launched += 1;
            for probe in self.probes.get(&launched).into_iter().flatten() {
                probe.launches.iter().try_for_each(|launch| self.line.issue(launch))?;
                self.line.wait()?;
                visit(&probe.storage, &mut read(&self.device, &self.copied, probe.elements)?)?;
            }
        }
        self.line.wait()
    }
}

impl<D: Operators> Line<D> {
    fn issue(&mut self, command: &Command<D>) -> Result<()> {
        issue(command, Seq(self.next), None, &mut self.queue)?;
        self.next += 1;
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        while self.queue.completed()? < Seq(self.next) {
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// Makes the launches of probes.
struct Maker<'a, D: Operators> {
    device: &'a D,
    network: &'a Network<D>,
    copied: &'a D::Buffer,
    scratch: Option<D::Buffer>,
    /// Ones and zeros, by the number of channels.
    constants: HashMap<usize, D::Buffer>,
}

impl<'a, D: Operators> Maker<'a, D> {
    fn new(
        device: &'a D,
        network: &'a Network<D>,
        copied: &'a D::Buffer,
        copies: &[(usize, Op)],
    ) -> Result<Self> {
        let mut constants = HashMap::new();
        for (_, op) in copies {
            let [channels, _] = op.constants();
            if let Entry::Vacant(entry) = constants.entry(channels) {
                entry.insert(device.pack(op, &vec![1.0; channels], &vec![0.0; channels])?);
            }
        }
        let wanted = copies.iter().map(|(_, op)| device.scratch(op, Rounded::default()));
        let scratch = scratch(device, wanted.fold(Scratch::default(), Scratch::max))?;
        Ok(Self { device, network, copied, scratch, constants })
    }

    /// The launches that copy a storage.
    fn make(&self, at: usize, op: &Op) -> Result<Vec<Command<D>>> {
        let [channels, _] = op.constants();
        let output = Storage { buffer: self.copied, offset: 0 };
        let operands = Operands {
            constants: self.constants.get(&channels),
            scratch: self.scratch.as_ref().map(|buffer| Storage { buffer, offset: 0 }),
            ..Operands::new(self.network.memory.storage(at)?, output)
        };
        let launches = self.device.operator(op, &operands)?;
        Ok(launches.into_iter().map(Command::Launch).collect())
    }
}

/// Scratch memory with zeros where it has to have them.
fn scratch<D: Operators>(device: &D, wanted: Scratch) -> Result<Option<D::Buffer>> {
    if wanted.bytes == 0 {
        return Ok(None);
    }
    let buffer = device.alloc(wanted.bytes)?;
    device.write(&buffer, 0, &vec![0; wanted.zeroed])?;
    Ok(Some(buffer))
}

/// The operation that makes floats of a storage, if a step writes it.
fn copy_of(model: &ImageModel, at: usize) -> Option<ScaleShift> {
    let step = model.graph().steps.iter().position(|step| step.writes == at)?;
    let Tensor { batch, of, height, width, layout, .. } = *model.layers()[step].op.output();
    let input = Tensor::new(layout, [batch * height * width, of, 1, 1]);
    Some(ScaleShift { input, output: Tensor { layout: Layout::Nchw, ..input }, relu: false })
}

/// Number of launches up to the end of the last step that writes each storage.
fn ends<D: Operators>(model: &ImageModel, network: &Network<D>) -> Vec<usize> {
    let graph = model.graph();
    let mut ends = vec![0; graph.storages.len()];
    let mut names = network.step_names().iter().peekable();
    let mut launched = 0;
    for step in &graph.steps {
        while names.next_if(|name| name.step == step.name).is_some() {
            launched += 1;
        }
        ends[step.writes] = launched;
    }
    ends
}

fn read<D: Operators>(device: &D, buffer: &D::Buffer, elements: usize) -> Result<Vec<f32>> {
    let mut bytes = vec![0; elements * size_of::<f32>()];
    device.read(buffer, 0, &mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect())
}
