//! A network with its own kernels: what launches what, with which memory.

use super::exchange::Exchanges;
use super::source::{KernelFacts, Source};
use crate::errors::error::{Error, Result};
use crate::files::json;
use crate::files::schedule_json::File;
use crate::graph::schedule::{ElementType, KernelCall, ScheduleGraph, Step, Storage, Work};
use crate::model::params::Params;
use reef_op::program::{Call, ProgramText, SourceFile};

/// An input, and where it is in what a [`Network`](crate::Network) takes as one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramInput {
    /// Its name: `data`.
    pub name: String,
    /// Its elements, all of one type.
    pub element: ElementType,
    /// Number of elements.
    pub elements: usize,
    /// Its first byte. Inputs follow each other in the order of the schedule, each from a multiple
    /// of 64 on.
    pub offset: usize,
    pub(crate) storage: usize,
}

/// A network whose kernels are its own.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramModel {
    graph: ScheduleGraph,
    sources: Vec<Source>,
    inputs: Vec<ProgramInput>,
    /// Storages that are given and are not inputs.
    weights: Vec<usize>,
    params: Option<Params>,
    exchange: Exchange,
}

/// Kind of exchange of values in a wave: see kernels/hip_flavour.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exchange {
    /// Floats stay what they are; by instructions where a wave has 64 lanes.
    #[default]
    Exact,
    /// Floats stay what they are; by barriers everywhere, as it is where a wave is narrower.
    Barriers,
    /// An exchange of integers gives whole numbers, as published sources have it by AMD's header.
    Whole,
}

impl Exchange {
    /// Text before a source.
    fn prelude(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::Barriers => "#define REEF_EXCHANGE_BY_BARRIERS 1\n",
            Self::Whole => "#define REEF_WHOLE_LANES 1\n",
        }
    }
}

impl ProgramModel {
    /// Of a schedule, sources with their names, and weights.
    ///
    /// Without weights, storages that are called like weights (`p7`, `conv_1_weight`) are made up
    /// when they are brought onto a device. With weights, what has none is an input.
    ///
    /// # Errors
    ///
    /// `Json`, `Graph` for the schedule; `Program` for a source that isn't understood, a kernel
    /// that isn't there, or one that can't run as it is called; `Param` for weights of another
    /// network.
    pub fn new(
        name: &str,
        schedule: &str,
        sources: &[(String, String)],
        params: Option<Params>,
    ) -> Result<Self> {
        let read = |(file, text): &(String, String)| {
            Source::read(file, text).map_err(|why| Error::Program { file: file.clone(), why })
        };
        let sources: Vec<_> = sources.iter().map(read).collect::<Result<_>>()?;
        let file = format!("{name}.json");
        let written = |kernel: &str| {
            let facts = sources.iter().find_map(|source| source.kernels.get(kernel))?;
            facts.written.as_ref().filter(|written| written.len() == 1).map(|written| written[0])
        };
        let graph = json::parse::<File>(schedule, &file)?.graph_of(name, &written);
        let graph = graph
            .and_then(|graph| graph.validate().map(|()| graph))
            .map_err(|(at, problem)| Error::Graph { file: file.clone(), at, problem })?;
        for step in &graph.steps {
            runs(step, &sources).map_err(|why| Error::Program { file: file.clone(), why })?;
        }
        if let Some(params) = &params {
            let file = format!("{name}.param");
            params.check(&graph).map_err(|problem| Error::Param { file, problem })?;
        }
        let is_weight = |storage: &usize| is_weight(&graph.storages[*storage], params.as_ref());
        let (weights, given) = graph.given.iter().copied().partition(is_weight);
        Ok(Self {
            inputs: inputs(&graph, given),
            graph,
            sources,
            weights,
            params,
            exchange: Exchange::Exact,
        })
    }

    /// Storages and launches.
    pub fn graph(&self) -> &ScheduleGraph {
        &self.graph
    }

    /// Inputs of each inference.
    pub fn inputs(&self) -> &[ProgramInput] {
        &self.inputs
    }

    /// Bytes of all inputs, as a [`Network`](crate::Network) takes them.
    pub fn input_bytes(&self) -> usize {
        let end = |input: &ProgramInput| input.offset + input.elements * input.element.bytes();
        self.inputs.last().map_or(0, end)
    }

    /// Names of the sources whose kernels can't be stopped midway, each with the reason.
    pub fn unguarded(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sources.iter().filter_map(|source| Some((&*source.name, source.unguarded.as_deref()?)))
    }

    /// Names of the kernels that exchange values in a wave.
    pub fn exchanging(&self) -> impl Iterator<Item = &str> {
        let kernels = self.sources.iter().flat_map(|source| &source.kernels);
        kernels
            .filter(|(_, facts)| facts.exchanges != Exchanges::None)
            .map(|(name, _)| name.as_str())
    }

    /// Returns whether all weights that it needs came with it. Others are made up.
    pub fn has_weights(&self) -> bool {
        self.params.is_some() || self.weights.is_empty()
    }

    /// Sets the kind of exchange in a wave.
    #[must_use]
    pub fn with_exchange(self, exchange: Exchange) -> Self {
        Self { exchange, ..self }
    }

    /// Sources and launches for a device, for
    /// [`Program::trusted`](reef_op::program::Program::trusted).
    pub fn text(&self) -> ProgramText {
        let file = |source: &Source| SourceFile {
            name: source.name.clone(),
            text: format!("{}{}", self.exchange.prelude(), source.compiled),
            guarded: source.unguarded.is_none(),
        };
        let calls = self.graph.steps.iter().filter_map(|step| self.call(step));
        ProgramText { files: self.sources.iter().map(file).collect(), calls: calls.collect() }
    }

    fn call(&self, step: &Step) -> Option<Call> {
        let Work::Kernel(KernelCall { grid, block, args }) = &step.work else { return None };
        let file =
            self.sources.iter().position(|source| source.kernels.contains_key(&step.name))?;
        let args = args.iter().map(|&storage| self.graph.storages[storage].bytes()).collect();
        Some(Call { file, kernel: step.name.clone(), grid: *grid, block: *block, args })
    }

    pub(crate) fn weights(&self) -> &[usize] {
        &self.weights
    }

    pub(crate) fn params(&self) -> Option<&Params> {
        self.params.as_ref()
    }
}

/// Checks that a step is a kernel of one source, and that its call fits the kernel.
fn runs(step: &Step, sources: &[Source]) -> Result<(), String> {
    let name = &step.name;
    let Work::Kernel(call) = &step.work else {
        return Err(format!("step {name} is an operation, in a network that brings its kernels"));
    };
    let mut having = sources.iter().filter_map(|source| Some((source, source.kernels.get(name)?)));
    let Some((_, facts)) = having.next() else {
        let files: Vec<_> = sources.iter().map(|source| source.name.as_str()).collect();
        return Err(format!("no kernel {name} in {}", files.join(", ")));
    };
    if let Some((other, _)) = having.next() {
        return Err(format!("kernel {name}: there is another one in {}", other.name));
    }
    called(name, facts, call)
}

fn called(name: &str, facts: &KernelFacts, call: &KernelCall) -> Result<(), String> {
    let (given, want) = (call.args.len(), facts.params);
    if given != want {
        return Err(format!("kernel {name} has {want} parameters, {given} arguments are given"));
    }
    if facts.written.as_ref().is_some_and(|written| written.len() != 1) {
        return Err(format!("kernel {name} doesn't write exactly one of its parameters"));
    }
    match facts.exchanges.fault(call.block.iter().product()) {
        Some(fault) => Err(format!("kernel {name} {fault}")),
        None => Ok(()),
    }
}

/// Returns whether a given storage is a weight. A file of weights holds floats alone.
fn is_weight(storage: &Storage, params: Option<&Params>) -> bool {
    let name = &storage.name;
    let numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let named = name.strip_prefix('p').is_some_and(numbered) || name.contains('_');
    match params.filter(|_| storage.element == ElementType::Float32) {
        Some(params) => params.tensors.contains_key(name),
        None => named,
    }
}

fn inputs(graph: &ScheduleGraph, given: Vec<usize>) -> Vec<ProgramInput> {
    let mut end = 0usize;
    let input = |storage: usize| {
        let of = &graph.storages[storage];
        let offset = end.next_multiple_of(crate::graph::arena::ALIGNMENT);
        end = offset + of.bytes();
        ProgramInput {
            name: of.name.clone(),
            element: of.element,
            elements: of.elements,
            offset,
            storage,
        }
    };
    given.into_iter().map(input).collect()
}
