//! Walks over the nodes of a graph and keeps what each name stands for.

use super::constant::{self, Constant};
use super::file::{Dimension, GraphFile, TensorFile, ValueFile};
use super::node::Node;
use super::{Fault, Options, operators};
use crate::net::{Id, Make, Net, Value};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Elements of the largest tensor, and the largest size of one: no network comes near.
const MOST_ELEMENTS: usize = 1 << 31;
const MOST_SIZE: usize = 1 << 20;
/// `TensorProto.DataType.FLOAT`.
const FLOAT: i64 = 1;

/// What a name stands for.
#[derive(Debug, Clone)]
pub(super) enum Known<'a> {
    /// A tensor in the file, decoded when it is asked for.
    Stored(&'a TensorFile<'a>),
    Constant(Constant),
    Tensor(Tensor),
}

/// A value of the network, and how ONNX sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tensor {
    pub(super) id: Id,
    pub(super) form: Form,
}

/// The dimensions that ONNX gives to `[batch, channels, rows, columns]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// All four.
    Picture,
    /// Batch, and all others in one.
    Flat,
    /// One channel, whose dimension is left out.
    Plane,
}

/// A graph that is being read.
pub(super) struct Reader<'a> {
    pub(super) folder: Option<&'a Path>,
    known: HashMap<&'a str, Known<'a>>,
    net: Net,
}

impl<'a> Reader<'a> {
    /// The network that `graph` describes, and its output.
    pub(super) fn read(
        graph: &'a GraphFile<'a>,
        folder: Option<&'a Path>,
        options: &Options,
    ) -> Result<(Net, Id), Fault> {
        let stored = |tensor: &'a TensorFile<'a>| (tensor.name, Known::Stored(tensor));
        let known = graph.initializers.iter().map(stored).collect();
        let mut reader = Self { folder, known, net: Net::default() };
        reader.input(&graph.inputs, options)?;
        for node in &graph.nodes {
            let node = Node::new(node, folder);
            reader.node(&node).map_err(|why| Fault::at_node(node.name(), node.file.op, why))?;
        }
        let output = reader.output(&graph.outputs)?;
        Ok((reader.net, output))
    }

    /// The one input that isn't an initializer.
    fn input(&mut self, inputs: &'a [ValueFile<'a>], options: &Options) -> Result<(), Fault> {
        let open: Vec<_> = inputs.iter().filter(|i| !self.known.contains_key(i.name)).collect();
        let &[input] = open.as_slice() else {
            let names: Vec<_> = open.iter().map(|input| input.name).collect();
            return Err(Fault::of_graph(format!("inputs {names:?}, one is wanted")));
        };
        let fault = |why| Fault { at: format!("input {:?}", input.name), why };
        let (shape, form) = input_shape(input, options).map_err(fault)?;
        let id = self.push(input.name, shape, Make::Input).map_err(fault)?;
        self.known.insert(input.name, Known::Tensor(Tensor { id, form }));
        Ok(())
    }

    fn node(&mut self, node: &Node<'a>) -> Result<(), String> {
        if !matches!(node.file.domain, "" | "ai.onnx") {
            return Err(format!("operators of domain {:?} are not supported", node.file.domain));
        }
        let made = operators::read(self, node)?;
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
            let names: Vec<_> = outputs.iter().map(|output| output.name).collect();
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

    pub(super) fn shape(&self, id: Id) -> [usize; 4] {
        self.net.value(id).shape
    }

    /// Its sizes as ONNX counts them.
    pub(super) fn dims(&self, tensor: Tensor) -> Vec<usize> {
        let [batch, channels, height, width] = self.shape(tensor.id);
        match tensor.form {
            Form::Picture => vec![batch, channels, height, width],
            Form::Flat => vec![batch, channels * height * width],
            Form::Plane => vec![batch, height, width],
        }
    }

    /// Appends a value to the network.
    pub(super) fn push(&mut self, name: &str, shape: [usize; 4], make: Make) -> Result<Id, String> {
        let elements = shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n));
        let fits = elements.is_some_and(|n| (1..MOST_ELEMENTS).contains(&n));
        if !fits || shape.iter().any(|&size| size > MOST_SIZE) {
            return Err(format!("a tensor of {shape:?} is out of range"));
        }
        Ok(self.net.push(Value { name: name.into(), shape, make }))
    }

    /// What operand `index` is.
    pub(super) fn operand(&self, node: &Node<'a>, index: usize) -> Result<&Known<'a>, String> {
        let name = node.operand(index).ok_or_else(|| format!("operand {index} is missing"))?;
        self.known.get(name).ok_or_else(|| {
            format!("{name:?} is no input, no initializer, and no node before this one makes it")
        })
    }

    /// Operand `index`, which depends on the input.
    pub(super) fn tensor(&self, node: &Node<'a>, index: usize) -> Result<Tensor, String> {
        match self.operand(node, index)? {
            Known::Tensor(tensor) => Ok(*tensor),
            _ => Err(format!("operand {index} is a constant")),
        }
    }

    /// Operand `index` with all four dimensions.
    pub(super) fn picture(&self, node: &Node<'a>, index: usize) -> Result<Id, String> {
        let tensor = self.tensor(node, index)?;
        match tensor.form {
            Form::Picture => Ok(tensor.id),
            _ => Err(format!("operand {index} has the shape {:?}", self.dims(tensor))),
        }
    }

    /// Operand `index`, which is a constant; `None` if it is left out.
    pub(super) fn constant(
        &self,
        node: &Node<'a>,
        index: usize,
    ) -> Result<Option<Constant>, String> {
        if node.operand(index).is_none() {
            return Ok(None);
        }
        let read = match self.operand(node, index)? {
            Known::Stored(tensor) => Constant::read(tensor, self.folder),
            Known::Constant(constant) => Ok(constant.clone()),
            Known::Tensor(_) => return Err(format!("operand {index} is no constant")),
        };
        let named = |why| format!("{:?}: {why}", node.operand(index).unwrap_or_default());
        read.map(Some).map_err(named)
    }

    /// Operand `index`, which must be there.
    pub(super) fn wanted(&self, node: &Node<'a>, index: usize) -> Result<Constant, String> {
        self.constant(node, index)?.ok_or_else(|| format!("operand {index} is missing"))
    }
}

/// Batch, channels, rows and columns of the input.
fn input_shape(input: &ValueFile<'_>, options: &Options) -> Result<([usize; 4], Form), String> {
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
    let sizes = (0..dims.len()).map(size).collect::<Result<Vec<_>, _>>()?;
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

/// Numbers of axes, counted from the front.
pub(super) fn axes(axes: &[i64], rank: usize) -> Result<HashSet<usize>, String> {
    axes.iter().map(|&axis| self::axis(axis, rank)).collect()
}

/// The number of an axis, counted from the front.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    let from_front = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    let fits = from_front.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank);
    fits.ok_or_else(|| format!("axis {axis} of {rank} dimensions"))
}
