//! Operator sets whose files are read.

use super::fault::{Fault, unsupported};
use super::file::{GraphFile, ModelFile, NodeFile};
use std::ops::RangeInclusive;

/// Versions of the default operator set whose files are read.
pub const OPSETS: RangeInclusive<i64> = 7..=28;

/// Operators that have meant since the version before them what they mean in the first one that is
/// read.
const SINCE: &[(i64, &[&str])] = &[
    (
        1,
        &[
            "ArgMax",
            "ArgMin",
            "Constant",
            "Conv",
            "ConvTranspose",
            "DepthToSpace",
            "Flatten",
            "Gather",
            "GlobalAveragePool",
            "GlobalMaxPool",
            "Hardmax",
            "Identity",
            "If",
            "LRN",
            "LogSoftmax",
            "Loop",
            "LpNormalization",
            "MatMul",
            "MaxPool",
            "Not",
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceMax",
            "ReduceMean",
            "ReduceMin",
            "ReduceProd",
            "ReduceSum",
            "ReduceSumSquare",
            "Shape",
            "Size",
            "Slice",
            "Softmax",
            "Softplus",
            "Softsign",
            "SpaceToDepth",
            "Squeeze",
            "TopK",
            "Transpose",
            "Unsqueeze",
        ],
    ),
    (2, &["GlobalLpPool", "LpPool", "Pad", "Split"]),
    (4, &["Concat"]),
    (5, &["Reshape"]),
    (
        6,
        &[
            "Abs",
            "Cast",
            "Ceil",
            "Clip",
            "Elu",
            "Exp",
            "Floor",
            "HardSigmoid",
            "InstanceNormalization",
            "LeakyRelu",
            "Log",
            "Max",
            "Mean",
            "Min",
            "Neg",
            "Reciprocal",
            "Relu",
            "Selu",
            "Sigmoid",
            "Sqrt",
            "Sum",
            "Tanh",
            "Tile",
        ],
    ),
];

/// Versions whose files may become networks for images.
pub(super) const IMAGE_OPSETS: RangeInclusive<i64> = 13..=21;

/// Version of the default operator set. If it is not one that is read, and all nodes are of other
/// domains, the file has no operators of it, so that any version will do: converters of trees
/// write 1. A file of an older version whose operators have not changed since is one of the first
/// version that is read.
pub(super) fn version(file: &ModelFile<'_>) -> i64 {
    let mut nodes = file.graph.iter().flat_map(|graph| graph.nodes.iter());
    let is_used = nodes.any(|node| matches!(node.domain, "" | "ai.onnx"))
        || file.functions.iter().any(|function| function.opset.is_none());
    let is_older = |opset: i64| (1..*OPSETS.start()).contains(&opset);
    let is_same = |opset: i64| file.graph.iter().all(|graph| mean_the_same(&graph.nodes, opset));
    let is_as_later = |opset| is_older(opset) && file.functions.is_empty() && is_same(opset);
    match file.opset {
        Some(opset) if is_used && is_as_later(opset) => *OPSETS.start(),
        Some(opset) if is_used || !file.has_other_domains || OPSETS.contains(&opset) => opset,
        None if !file.has_other_domains => 0,
        _ => *OPSETS.end(),
    }
}

/// Returns whether these nodes, and those of graphs in them, mean the same in the first version
/// that is read.
fn mean_the_same(nodes: &[NodeFile<'_>], opset: i64) -> bool {
    let is_same = |op: &str| {
        SINCE.iter().any(|(since, operators)| *since <= opset && operators.contains(&op))
    };
    nodes.iter().filter(|node| matches!(node.domain, "" | "ai.onnx")).all(|node| {
        let mut graphs = node.attributes.iter().filter_map(|attribute| attribute.graph.as_deref());
        is_same(node.op) && graphs.all(|graph| mean_the_same(&graph.nodes, opset))
    })
}

/// The graph of a file whose operators are known.
pub(super) fn graph_of<'f, 'a>(
    file: &'f ModelFile<'a>,
    opsets: &RangeInclusive<i64>,
) -> Result<&'f GraphFile<'a>, Fault> {
    let graph = file.graph.as_ref().ok_or_else(|| Fault::no_file("it has no graph".into()))?;
    ensure_read(version(file), opsets).map_err(Fault::of_graph)?;
    Ok(graph)
}

/// Refuses a version of the default operator set that is not read.
pub(super) fn ensure_read(opset: i64, opsets: &RangeInclusive<i64>) -> Result<(), String> {
    if opset < 1 {
        return Err(format!("operator set must be at least 1, got {opset}"));
    }
    if opsets.contains(&opset) {
        return Ok(());
    }
    let (least, most) = (opsets.start(), opsets.end());
    Err(unsupported(&format!("operator set {opset} (have: {least} to {most}) is")))
}
