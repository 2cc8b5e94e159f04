//! A network with its own kernels on a device.

use super::model::ProgramModel;
use crate::errors::error::{Error, Result};
use crate::graph::arena;
use crate::graph::schedule::{ElementType, Storage, Work};
use crate::model::ports::{Port, Ports};
use crate::model::seeded::Seeded;
use crate::model::tensor::{Kind, Source, TensorSpec};
use crate::run::launch_name::launch_names;
use crate::run::memory::{Memory, Side};
use crate::run::network::Network;
use reef_op::Operators;
use reef_op::program::{LoadedProgram, Program, Region, RegionPart};
use reef_op::tensor::{Element, Spec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The kernels of a network and its weights on a device; any number of instances share them.
#[derive(Debug)]
pub(crate) struct ProgramWeights<D: Operators> {
    loaded: LoadedProgram<D>,
    /// By storage.
    regions: BTreeMap<usize, Region<D>>,
}

impl<D: Operators> ProgramWeights<D> {
    /// Compiles `program`, which is the trusted [text](ProgramModel::text) of `model`, and brings
    /// its weights onto the device. What has no weights gets those of `seed`; integers count from
    /// 0.
    ///
    /// # Errors
    ///
    /// `Program` if it is that of another network; `MissingTensor`; an error of the device.
    pub(crate) fn load(
        device: &D,
        model: &ProgramModel,
        program: Program,
        seed: Seeded,
    ) -> Result<Arc<Self>> {
        if *program.text() != model.text() {
            let file = model.graph().name.clone();
            return Err(Error::Program { file, why: "the trusted program is another one".into() });
        }
        let loaded = LoadedProgram::load(device, program)?;
        let region = |&storage: &usize| {
            let bytes = values(model, &model.graph().storages[storage], seed)?;
            let region = loaded.alloc(bytes.len())?;
            device.write(region.buffer(), 0, &bytes)?;
            Ok((storage, region))
        };
        let regions = model.weights().iter().map(region).collect::<Result<_>>()?;
        Ok(Arc::new(Self { loaded, regions }))
    }
}

/// The bytes of a weight.
fn values(model: &ProgramModel, storage: &Storage, seed: Seeded) -> Result<Vec<u8>> {
    let count = 0..storage.elements;
    Ok(match storage.element {
        ElementType::Float32 => {
            let values = floats(model, storage, seed)?;
            values.iter().flat_map(|value| value.to_ne_bytes()).collect()
        }
        ElementType::Int32 => count.flat_map(|k| (k as i32).to_ne_bytes()).collect(),
        ElementType::Int64 => count.flat_map(|k| (k as i64).to_ne_bytes()).collect(),
        ElementType::Byte | ElementType::Uint1 => vec![0; storage.elements],
    })
}

/// Read, or made up. The schedule doesn't tell how many values a weight is summed over: twice the
/// root of its length, which is right for a convolution of 3 x 3 with somewhat fewer channels going
/// in than out.
fn floats(model: &ProgramModel, storage: &Storage, seed: Seeded) -> Result<Vec<f32>> {
    let Storage { name, elements, .. } = storage;
    if let Some(params) = model.params() {
        let values = params.tensors.get(name);
        return values.cloned().ok_or_else(|| Error::MissingTensor { name: name.clone() });
    }
    let kind = Kind::Weight { fan_in: (2 * elements.isqrt()).max(1) };
    seed.tensor(&TensorSpec { name: name.clone(), kind, elements: *elements })
}

impl ProgramModel {
    /// Inputs, each as a row of elements: the schedule has no shapes.
    pub fn input_ports(&self) -> Ports {
        Ports::new(self.inputs().iter().map(|input| port(self, input.storage)))
    }

    /// Outputs, each as a row of elements; none if the schedule has no storage `output`.
    pub fn output_ports(&self) -> Ports {
        Ports::new(self.graph().storage("output").map(|output| port(self, output)))
    }

    /// Bytes that its weights take on a device.
    pub fn constant_bytes(&self) -> usize {
        let bytes = |&storage: &usize| self.graph().storages[storage].bytes();
        self.weights().iter().map(bytes).fold(0, usize::saturating_add)
    }

    /// Bytes that each instance takes on a device and, for inputs and outputs, on the host.
    pub fn instance_bytes(&self) -> usize {
        let ends = self.input_ports().bytes().saturating_add(self.output_ports().bytes());
        arena::plan(self.graph()).bytes.saturating_add(ends.saturating_mul(2))
    }
}

impl<D: Operators> Network<D> {
    /// An instance of a network with its own kernels. Its input is all inputs, see
    /// [`ProgramModel::inputs`]; its output is the storage of that name, which may be longer than
    /// what the network computes.
    ///
    /// Values are 32-bit floats where an input is of those; others are staged as
    /// [bytes](Self::stage_bytes).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`LoadedProgram::launches`]; an error of the device.
    pub(crate) fn of_program(
        model: &ProgramModel,
        weights: &Arc<ProgramWeights<D>>,
    ) -> Result<Self> {
        let (loaded, graph) = (&weights.loaded, model.graph());
        let own = InstanceMemory::alloc(model, loaded)?;
        let arguments = graph.steps.iter().map(|step| own.arguments(model, weights, &step.work));
        let launches = loaded.launches(&arguments.collect::<Result<Vec<_>>>()?)?;
        let names = graph.steps.iter().flat_map(|step| launch_names(&step.name, 1)).collect();
        let memory = own.memory(model, loaded.device())?;
        Ok(Self::of_launches(loaded.device(), memory, launches, names))
    }
}

/// Device memory of one instance.
struct InstanceMemory<D: Operators> {
    plan: arena::ArenaPlan,
    arena: Region<D>,
    input: Region<D>,
    output: Region<D>,
    output_storage: usize,
}

impl<D: Operators> InstanceMemory<D> {
    fn alloc(model: &ProgramModel, loaded: &LoadedProgram<D>) -> Result<Self> {
        let (graph, plan) = (model.graph(), arena::plan(model.graph()));
        let no_output = || Error::MissingTensor { name: "output".into() };
        let output_storage = graph.storage("output").ok_or_else(no_output)?;
        let alloc = |bytes: usize| loaded.alloc(bytes.max(1));
        Ok(Self {
            arena: alloc(plan.bytes)?,
            input: alloc(model.input_bytes())?,
            output: alloc(graph.storages[output_storage].bytes())?,
            output_storage,
            plan,
        })
    }

    fn arguments<'a>(
        &'a self,
        model: &ProgramModel,
        weights: &'a ProgramWeights<D>,
        work: &Work,
    ) -> Result<Vec<RegionPart<'a, D>>> {
        let Work::Kernel(call) = work else { return Ok(Vec::new()) };
        call.args.iter().map(|&storage| self.part(model, weights, storage)).collect()
    }

    fn part<'a>(
        &'a self,
        model: &ProgramModel,
        weights: &'a ProgramWeights<D>,
        storage: usize,
    ) -> Result<RegionPart<'a, D>> {
        let input = model.inputs().iter().find(|input| input.storage == storage);
        let (region, offset) = match (self.plan.offsets[storage], input) {
            (Some(offset), _) => (&self.arena, offset),
            (None, Some(input)) => (&self.input, input.offset),
            (None, None) if storage == self.output_storage => (&self.output, 0),
            (None, None) => {
                let name = || model.graph().storages[storage].name.clone();
                let missing = || Error::MissingTensor { name: name() };
                (weights.regions.get(&storage).ok_or_else(missing)?, 0)
            }
        };
        Ok(RegionPart { region, offset })
    }

    fn memory(self, model: &ProgramModel, device: &D) -> Result<Memory<D>> {
        let side = |ports: Ports, region: &Region<D>| {
            let host = device.alloc_host(ports.bytes().max(1))?;
            Ok::<_, Error>(Side { device: region.buffer().clone(), host, ports })
        };
        Ok(Memory {
            inputs: side(model.input_ports(), &self.input)?,
            outputs: side(model.output_ports(), &self.output)?,
            arena: self.arena.buffer().clone(),
            scratch: None,
            scratch_bytes: 0,
            zeroed_bytes: 0,
            plan: self.plan,
        })
    }
}

/// A storage as the schedule has it: without sizes, but for how many elements there are.
fn port(model: &ProgramModel, storage: usize) -> Port {
    let Storage { name, element, elements, .. } = &model.graph().storages[storage];
    let element = match element {
        ElementType::Float32 => Element::F32,
        ElementType::Int32 => Element::I32,
        ElementType::Int64 => Element::I64,
        ElementType::Byte => Element::U8,
        ElementType::Uint1 => Element::Bool,
    };
    Port::new(name.clone(), Spec { element, dims: vec![*elements] }, storage)
}
