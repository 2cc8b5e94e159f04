//! Networks that can be built by name.

use crate::fold::Folded;
use crate::layers::Builder;
use crate::param::Params;
use crate::resnet::Block;
use crate::schedule::ScheduleGraph;
use crate::tensor::{Constants, Source, TensorSpec};
use crate::{Error, Result, densenet, inception, plain, resnet};
use reef_core::op::{Op, Tensor};
use std::ops::RangeInclusive;

/// The networks that [`build`] knows.
pub const NAMES: &[&str] = &[
    "resnet18",
    "resnet50",
    "resnet152",
    "densenet121",
    "densenet201",
    "inception_v3",
    "vgg19",
    "alexnet",
];

/// Largest picture and batch, so that no shape overflows.
const MOST: usize = 8192;

/// What one step of a network computes, and from which tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The operation.
    pub op: Op,
    /// Where its weights and bias come from.
    pub constants: Constants,
}

/// A network: its schedule graph, and the layer behind each step.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    graph: ScheduleGraph,
    layers: Vec<Layer>,
}

impl Model {
    /// One layer for each step of `graph`, at least one.
    pub(crate) fn new(graph: ScheduleGraph, layers: Vec<Layer>) -> Self {
        debug_assert_eq!(graph.steps.len(), layers.len());
        Self { graph, layers }
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

    /// The picture, dense and row-major.
    pub fn input(&self) -> &Tensor {
        self.layers[0].op.input()
    }

    /// The logits, dense and row-major.
    pub fn output(&self) -> &Tensor {
        self.layers[self.layers.len() - 1].op.output()
    }

    /// All tensors that the network is made of, in the order of its steps.
    pub fn tensors(&self) -> Vec<TensorSpec> {
        self.layers.iter().flat_map(|layer| layer.constants.tensors(&layer.op)).collect()
    }

    /// Values that training changes, as torchvision counts them.
    pub fn parameters(&self) -> usize {
        let count = |tensor: &TensorSpec| tensor.kind.is_parameter().then_some(tensor.elements);
        self.tensors().iter().filter_map(count).sum()
    }

    /// Everything that the network takes from `source`, to be kept in a file.
    ///
    /// # Errors
    ///
    /// Those of `source`.
    pub fn params(&self, source: &impl Source) -> Result<Params> {
        let named = |tensor: TensorSpec| Ok((tensor.name.clone(), source.tensor(&tensor)?));
        let tensors = self.tensors().into_iter().map(named).collect::<Result<_>>()?;
        Ok(Params { tensors })
    }
}

impl Layer {
    /// Its weights and bias, normalisation folded in.
    ///
    /// # Errors
    ///
    /// Those of `source`.
    pub fn fold(&self, source: &impl Source) -> Result<Folded> {
        self.constants.fold(&self.op, source)
    }
}

/// Builds the network called `name`, one of [`NAMES`], for `batch` square pictures at a time.
///
/// Without an `input_size` it is the one that the network was designed for: 299 rows and columns for
/// inception_v3, 224 for the others. The least is 75 and 32; vgg19 and alexnet take 224 only.
///
/// # Errors
///
/// `UnknownNetwork`, or `OutOfRange` for the size or the batch.
pub fn build(name: &str, input_size: Option<usize>, batch: usize) -> Result<Model> {
    let (usual, sizes) = match name {
        "inception_v3" => (299, 75..=MOST),
        "vgg19" | "alexnet" => (plain::SIZE, plain::SIZE..=plain::SIZE),
        _ => (224, 32..=MOST),
    };
    let size = input_size.unwrap_or(usual);
    in_range(name, "batch", batch, 1..=MOST)?;
    in_range(name, "input size", size, sizes)?;
    let b = Builder::new(name, batch);
    Ok(match name {
        "resnet18" => resnet::build(b, Block::Basic, [2, 2, 2, 2], size),
        "resnet50" => resnet::build(b, Block::Bottleneck, [3, 4, 6, 3], size),
        "resnet152" => resnet::build(b, Block::Bottleneck, [3, 8, 36, 3], size),
        "densenet121" => densenet::build(b, [6, 12, 24, 16], size),
        "densenet201" => densenet::build(b, [6, 12, 48, 32], size),
        "inception_v3" => inception::build(b, size),
        "vgg19" => plain::vgg(b, plain::VGG19),
        "alexnet" => plain::alexnet(b),
        _ => return Err(Error::UnknownNetwork { asked: name.into(), have: NAMES.join(", ") }),
    })
}

fn in_range(
    network: &str,
    what: &'static str,
    asked: usize,
    possible: RangeInclusive<usize>,
) -> Result<()> {
    if possible.contains(&asked) {
        return Ok(());
    }
    let (least, most) = possible.into_inner();
    Err(Error::OutOfRange { network: network.into(), what, asked, least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_graphs_satisfy_what_loaded_ones_do() {
        for name in NAMES {
            let least = match *name {
                "inception_v3" => 75,
                "vgg19" | "alexnet" => 224,
                _ => 32,
            };
            for size in [Some(least), None] {
                let model = build(name, size, 3).unwrap();
                assert_eq!(model.graph().validate(), Ok(()), "{name}");
                assert_eq!(model.graph().kernels().len(), model.layers().len(), "{name}: names");
            }
        }
    }
}
