//! Operator sets whose files are read.

use super::fault::{Fault, unsupported};
use super::file::{GraphFile, ModelFile};
use std::ops::RangeInclusive;

/// Versions of the default operator set whose files are read.
pub const OPSETS: RangeInclusive<i64> = 7..=28;

/// Versions whose files may become networks for images.
pub(super) const IMAGE_OPSETS: RangeInclusive<i64> = 13..=21;

/// Version of the default operator set. If it is not one that is read, and all nodes are of other
/// domains, the file has no operators of it, so that any version will do: converters of trees
/// write 1.
pub(super) fn version(file: &ModelFile<'_>) -> i64 {
    let mut nodes = file.graph.iter().flat_map(|graph| graph.nodes.iter());
    let is_used = nodes.any(|node| matches!(node.domain, "" | "ai.onnx"))
        || file.functions.iter().any(|function| function.opset.is_none());
    match file.opset {
        Some(opset) if is_used || !file.has_other_domains || OPSETS.contains(&opset) => opset,
        None if !file.has_other_domains => 0,
        _ => *OPSETS.end(),
    }
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
