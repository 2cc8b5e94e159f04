//! Files that may be networks for images: their operators, and the size of the image.

use super::constant;
use super::fault::Fault;
use super::file::{Dimension, GraphFile, ModelFile, ValueFile};
use super::node::name_of;
use super::opset::{IMAGE_OPSETS, graph_of};
use std::collections::HashSet;

/// Names that an error lists at most.
pub(super) const SHOWN: usize = 8;

/// `TensorProto.DataType.FLOAT`.
const FLOAT: i64 = 1;

/// Operators that networks for images are made of.
pub const OPERATORS: &[&str] = &[
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Clip",
    "Concat",
    "Constant",
    "Conv",
    "Div",
    "Dropout",
    "Flatten",
    "Gather",
    "Gemm",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "MatMul",
    "MaxPool",
    "Mul",
    "ReduceMean",
    "Relu",
    "Reshape",
    "Shape",
    "Sigmoid",
    "Squeeze",
    "Sub",
    "Transpose",
    "Unsqueeze",
];

/// Sizes of images that a file may leave open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Options {
    /// Images at a time; 1 if neither this nor the file says.
    pub(crate) batch: Option<usize>,
    /// Rows and columns.
    pub(crate) size: Option<usize>,
}

/// Batch, channels, rows and columns of the input of a file that may be a network for images.
pub(super) fn image_of(file: &ModelFile<'_>, options: &Options) -> Result<[usize; 4], Fault> {
    let graph = graph_of(file, &IMAGE_OPSETS)?;
    let input = only_input(graph)?;
    let shape = shape(input, options).map_err(|why| Fault::at_input(input.name, why))?;
    for node in &graph.nodes {
        let fault = |why| Fault::at_node(name_of(node), node.op, why);
        if !matches!(node.domain, "" | "ai.onnx") {
            let domain = node.domain;
            return Err(fault(format!("operators of domain {domain:?} are not supported")));
        }
        if OPERATORS.binary_search(&node.op).is_err() {
            let have = OPERATORS.join(", ");
            return Err(fault(format!("the operator (have: {have}) is not supported")));
        }
    }
    Ok(shape)
}

/// Returns whether kernels for images are worth it: the image is brought into their layout first,
/// which takes longer than a step without a convolution.
pub(super) fn has_convolutions(file: &ModelFile<'_>) -> bool {
    file.graph.iter().flat_map(|graph| &graph.nodes).any(|node| node.op == "Conv")
}

/// Returns whether an output has several rows or columns, as the file declares it: no network for
/// images has.
pub(super) fn ends_in_images(file: &ModelFile<'_>) -> bool {
    let outputs = file.graph.iter().flat_map(|graph| &graph.outputs);
    let several = |dims: &[Dimension<'_>]| match dims {
        [_, _, sides @ ..] => sides.iter().any(|side| matches!(side, Dimension::Fixed(2..))),
        _ => false,
    };
    outputs.filter_map(|output| output.dims.as_deref()).any(several)
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
            Err(Fault::of_graph(format!("inputs must be one, got {names:?}")))
        }
    }
}

/// Sizes of the input as the file counts them; those that it leaves open are chosen.
pub(super) fn input_sizes(input: &ValueFile<'_>, options: &Options) -> Result<Vec<usize>, String> {
    if input.element != FLOAT {
        return Err(format!("elements must be 32-bit floats (1), got type {}", input.element));
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
fn shape(input: &ValueFile<'_>, options: &Options) -> Result<[usize; 4], String> {
    let sizes = input_sizes(input, options)?;
    let (shape, is_image) = match *sizes.as_slice() {
        [batch, channels, height, width] => ([batch, channels, height, width], true),
        [batch, channels] => ([batch, channels, 1, 1], false),
        ref other => return Err(format!("its shape must have two or four sizes, got {other:?}")),
    };
    if let Some(batch) = options.batch.filter(|&batch| batch != shape[0]) {
        return Err(format!("batch {} is fixed, {batch} asked", shape[0]));
    }
    match options.size.filter(|&size| is_image && [size; 2] != shape[2..]) {
        Some(size) => Err(format!("{}x{} is fixed, {size} asked", shape[2], shape[3])),
        None => Ok(shape),
    }
}
