//! A network: its schedule and what each step computes.

use super::fold::Folded;
use super::params::Params;
use super::ports::Port;
use super::tensor::{Constants, Source, TensorSpec};
use crate::errors::error::{Error, Result};
use crate::graph::schedule::ScheduleGraph;
use reef_op::tensor::{Element, Spec};
use reef_op::{Op, Tensor};
use std::collections::HashSet;
use std::sync::Arc;

/// Operation of one step of a network, and its tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The operation.
    pub op: Op,
    /// Origin of its weights and bias.
    pub constants: Constants,
}

/// A network: its schedule graph, and the layer behind each step.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageModel {
    graph: ScheduleGraph,
    layers: Vec<Layer>,
    /// Names of the image and of the logits.
    ports: [Arc<str>; 2],
    /// Sizes of both, if a file has others than [`sizes`](Self::sizes).
    sizes: Option<[Vec<usize>; 2]>,
}

/// Names of the ports of a network that no file has given others.
const PORTS: [&str; 2] = ["input", "logits"];

impl ImageModel {
    /// One layer for each step of `graph`, at least one.
    pub(crate) fn new(graph: ScheduleGraph, layers: Vec<Layer>) -> Self {
        debug_assert_eq!(graph.steps.len(), layers.len());
        Self { graph, layers, ports: PORTS.map(Arc::from), sizes: None }
    }

    /// Gives its ports the names that a file has for them.
    pub(crate) fn with_ports(self, ports: [Arc<str>; 2]) -> Self {
        Self { ports, ..self }
    }

    /// Gives its ports the sizes that a file has for them, of as many elements.
    pub(crate) fn with_sizes(self, sizes: [Vec<usize>; 2]) -> Self {
        let sizes = Some(sizes).filter(|sizes| *sizes != self.sizes());
        Self { sizes, ..self }
    }

    /// Gives its ports the names and sizes that those of `other` have.
    pub(crate) fn with_ports_of(self, other: &Self) -> Self {
        Self { ports: other.ports.clone(), sizes: other.sizes.clone(), ..self }
    }

    /// Sizes of its ports, if a file has given others than usual.
    pub(crate) fn file_sizes(&self) -> Option<&[Vec<usize>; 2]> {
        self.sizes.as_ref()
    }

    /// Usual sizes of its ports: batch, channels, rows, columns, and batch, classes.
    fn sizes(&self) -> [Vec<usize>; 2] {
        let Tensor { batch, channels, height, width, .. } = *self.input();
        let output = self.output();
        [vec![batch, channels, height, width], vec![output.batch, output.channels]]
    }

    /// Names of its ports, if a file has given them.
    pub(crate) fn file_ports(&self) -> Option<&[Arc<str>; 2]> {
        (self.ports != PORTS.map(Arc::from)).then_some(&self.ports)
    }

    /// Calls it something else when talking to people.
    pub(crate) fn rename(&mut self, name: &str) {
        self.graph.name = name.into();
    }

    /// Storages and steps.
    pub fn graph(&self) -> &ScheduleGraph {
        &self.graph
    }

    /// The layers, one for each step.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The image, dense and row-major.
    pub fn input(&self) -> &Tensor {
        self.layers[0].op.input()
    }

    /// The logits, dense and row-major.
    pub fn output(&self) -> &Tensor {
        self.layers[self.layers.len() - 1].op.output()
    }

    /// The image as a port: batch, channels, rows, columns, or the sizes that a file has.
    pub fn input_port(&self) -> Port {
        let [dims, _] = self.port_sizes();
        Port::new(&*self.ports[0], Spec { element: Element::F32, dims }, self.graph.given[0])
    }

    /// The logits as a port: batch, classes, or the sizes that a file has.
    pub fn output_port(&self) -> Port {
        let [_, dims] = self.port_sizes();
        let storage = self.graph.steps[self.layers.len() - 1].writes;
        Port::new(&*self.ports[1], Spec { element: Element::F32, dims }, storage)
    }

    fn port_sizes(&self) -> [Vec<usize>; 2] {
        self.sizes.clone().unwrap_or_else(|| self.sizes())
    }

    /// All tensors that the network is made of, in the order of its steps.
    pub fn tensors(&self) -> Vec<TensorSpec> {
        self.layers.iter().flat_map(|layer| layer.constants.tensors(&layer.op)).collect()
    }

    /// Values that training changes, as torchvision counts them.
    pub fn parameters(&self) -> usize {
        self.layers.iter().map(Layer::parameters).sum()
    }

    /// Everything that the network takes from `source`, to be kept in a file.
    ///
    /// # Errors
    ///
    /// The error of `source`.
    pub fn params(&self, source: &impl Source) -> Result<Params> {
        let named = |tensor: TensorSpec| Ok((tensor.name.clone(), source.tensor(&tensor)?));
        let tensors = self.tensors().into_iter().map(named).collect::<Result<_>>()?;
        Ok(Params { tensors })
    }

    /// Keeps the tensors of `params` that the network takes, without a copy of them.
    ///
    /// # Errors
    ///
    /// `MissingTensor`, `Length`.
    pub fn keep_of(&self, mut params: Params) -> Result<Params> {
        let tensors = self.tensors();
        tensors.iter().try_for_each(|tensor| params.find(tensor).map(drop))?;
        let wanted: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        params.tensors.retain(|name, _| wanted.contains(name.as_str()));
        Ok(params)
    }
}

impl Layer {
    /// Values of it that training changes.
    pub fn parameters(&self) -> usize {
        self.constants.parameters(&self.op)
    }

    /// Its weights and bias, normalisation folded in.
    ///
    /// # Errors
    ///
    /// The error of `source`; `Tensor` if weights of 8 bits are not finite, with their channel.
    pub fn fold(&self, source: &impl Source) -> Result<Folded> {
        let folded = self.constants.fold(&self.op, source)?;
        if self.op.input().layout.quantized().is_some() {
            self.check_finite(&folded)?;
        }
        Ok(folded)
    }

    /// Refuses weights for which no scale of their output channel exists.
    fn check_finite(&self, folded: &Folded) -> Result<()> {
        let (weights, bias) = folded;
        let rows = weights.chunks((weights.len() / bias.len().max(1)).max(1));
        for (channel, (row, bias)) in rows.zip(bias).enumerate() {
            if let Some(value) = row.iter().chain([bias]).find(|value| !value.is_finite()) {
                let name = self.constants.tensors(&self.op).into_iter().next();
                let name = name.map(|tensor| tensor.name).unwrap_or_default();
                let why = format!(
                    "{name}: output channel {channel} must be finite for numbers of 8 bits, got {value}"
                );
                return Err(Error::Tensor { why });
            }
        }
        Ok(())
    }
}
