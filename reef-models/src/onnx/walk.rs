//! Walks over the nodes of a graph, one after the other.

use super::constant;
use super::fault::Fault;
use super::file::{Dimension, GraphFile, TensorFile, ValueFile};
use super::node::Node;
use super::operators::read::read;
use super::scope::{Form, Known, Reader, Tensor};
use crate::ir::value::{Id, Make, Net};
use crate::memory::ledger::Ledger;
use std::collections::HashSet;
use std::path::Path;

/// Names that an error lists at most.
const SHOWN: usize = 8;
/// Bytes that a name and what it stands for take in a map that grows.
const NAME: usize = 256;

/// `TensorProto.DataType.FLOAT`.
const FLOAT: i64 = 1;

/// What a file may leave open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Options {
    /// Pictures at a time; 1 if neither this nor the file says.
    pub(crate) batch: Option<usize>,
    /// Rows and columns.
    pub(crate) size: Option<usize>,
}

/// The network that `graph` describes, and its output.
pub(super) fn walk<'a>(
    graph: &'a GraphFile<'a>,
    folder: Option<&'a Path>,
    options: &Options,
    ledger: &'a Ledger,
) -> Result<(Net, Id), Fault> {
    let names = graph.initializers.len() + graph.nodes.len();
    let _names = ledger.charge((names * NAME) as u64).map_err(|why| Fault::of_graph(why.into()))?;
    let stored = |tensor: &'a TensorFile<'a>| (tensor.name, Known::Stored(tensor));
    let known = graph.initializers.iter().map(stored).collect();
    let mut reader = Reader { folder, ledger, known, net: Net::default() };
    reader.input(only_input(graph)?, options)?;
    for node in &graph.nodes {
        let node = Node::new(node, folder, ledger);
        reader.node(&node).map_err(|why| Fault::at_node(node.name(), node.file.op, why))?;
    }
    let output = reader.output(&graph.outputs)?;
    Ok((reader.net, output))
}

impl<'a> Reader<'a> {
    fn input(&mut self, input: &'a ValueFile<'a>, options: &Options) -> Result<(), Fault> {
        let fault = |why| Fault::at_input(input.name, why);
        let (shape, form) = input_shape(input, options).map_err(fault)?;
        let id = self.push(input.name, shape, Make::Input).map_err(fault)?;
        self.known.insert(input.name, Known::Tensor(Tensor { id, form }));
        Ok(())
    }

    fn node(&mut self, node: &Node<'a>) -> Result<(), String> {
        if !matches!(node.file.domain, "" | "ai.onnx") {
            return Err(format!("operators of domain {:?} are not supported", node.file.domain));
        }
        let made = read(self, node)?;
        node.ensure_all_known()?;
        let name = *node.file.outputs.first().ok_or("it makes nothing")?;
        match self.known.insert(name, made) {
            None => Ok(()),
            Some(_) => Err(format!("{name:?} is made a second time")),
        }
    }

    /// The one output.
    fn output(&self, outputs: &[ValueFile<'_>]) -> Result<Id, Fault> {
        let [output] = outputs else {
            let names: Vec<_> = outputs.iter().take(SHOWN).map(|output| output.name).collect();
            return Err(Fault::of_graph(format!("outputs {names:?}, one is wanted")));
        };
        let fault = |why| Fault { at: format!("output {:?}", output.name), why };
        let tensor = match self.known.get(output.name) {
            Some(Known::Tensor(tensor)) => *tensor,
            Some(_) => return Err(fault("depends on no input".into())),
            None => return Err(fault("no node makes it".into())),
        };
        let [.., height, width] = self.shape(tensor.id);
        match [height, width] {
            [1, 1] => Ok(tensor.id),
            _ => Err(fault(format!(
                "{height} rows and {width} columns; networks here end in one of each"
            ))),
        }
    }
}

/// The one input that isn't an initializer.
pub(super) fn only_input<'f, 'a>(graph: &'f GraphFile<'a>) -> Result<&'f ValueFile<'a>, Fault> {
    let stored: HashSet<&str> = graph.initializers.iter().map(|tensor| tensor.name).collect();
    let open = || graph.inputs.iter().filter(|input| !stored.contains(input.name));
    let mut two = open();
    match (two.next(), two.next()) {
        (Some(input), None) => Ok(input),
        _ => {
            let names: Vec<_> = open().take(SHOWN).map(|input| input.name).collect();
            Err(Fault::of_graph(format!("inputs {names:?}, one is wanted")))
        }
    }
}

/// Sizes of the input as the file counts them; what it leaves open is chosen.
pub(super) fn input_sizes(input: &ValueFile<'_>, options: &Options) -> Result<Vec<usize>, String> {
    if input.element != FLOAT {
        return Err(format!("elements of type {}, 32-bit floats (1) are wanted", input.element));
    }
    let dims = input.dims.as_ref().ok_or("its shape is left open")?;
    let size = |axis: usize| match (axis, dims[axis]) {
        (_, Dimension::Fixed(size)) => constant::dims(&[size]).map(|sizes| sizes[0]),
        (0, Dimension::Open(_)) => Ok(options.batch.unwrap_or(1)),
        (2 | 3, Dimension::Open(name)) => {
            options.size.ok_or_else(|| format!("size {axis} ({name:?}) is left open: choose one"))
        }
        (_, Dimension::Open(name)) => Err(format!("size {axis} ({name:?}) is left open")),
    };
    (0..dims.len()).map(size).collect()
}

/// Batch, channels, rows and columns of the input.
fn input_shape(input: &ValueFile<'_>, options: &Options) -> Result<([usize; 4], Form), String> {
    let sizes = input_sizes(input, options)?;
    let (shape, form) = match sizes.as_slice() {
        &[batch, channels, height, width] => ([batch, channels, height, width], Form::Picture),
        &[batch, channels] => ([batch, channels, 1, 1], Form::Flat),
        other => return Err(format!("shape {other:?}, two or four sizes are wanted")),
    };
    if let Some(batch) = options.batch.filter(|&batch| batch != shape[0]) {
        return Err(format!("batch {} is fixed, {batch} asked", shape[0]));
    }
    let asked = options.size.filter(|&size| form == Form::Picture && [size; 2] != shape[2..]);
    match asked {
        Some(size) => Err(format!("{}x{} is fixed, {size} asked", shape[2], shape[3])),
        None => Ok((shape, form)),
    }
}
