//! Readers of a node's result, as far as they say how many rows of it are read.

use super::stored::array;
use super::walk::{Scope, Walk};
use crate::memory::ledger::Ledger;
use crate::onnx::file::NodeFile;
use crate::tensors::value::Value;

/// Nodes whose readers are found at most, each among all nodes of a graph.
const MAX_FOLLOWED: usize = 1024;
/// Most nodes between a selection of boxes and the part of them that is read.
const MAX_NODES: usize = 4;

impl<'a> Walk<'a, '_> {
    /// Rows of a node's results that are read at most. Choosing fewer boxes takes fewer operations.
    pub(super) fn rows_read(
        &mut self,
        node: &NodeFile<'a>,
        nodes: &[NodeFile<'a>],
        scope: &Scope<'a, '_>,
    ) -> Vec<Option<usize>> {
        match &scope.outputs {
            Some(outputs) if selects_boxes(node) && self.followed < MAX_FOLLOWED => {
                self.followed += 1;
                let readers = Readers { nodes, scope, outputs, ledger: self.builder.ledger };
                node.outputs.iter().map(|name| readers.rows_of(name)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Nodes of a graph with what is known before they are read.
struct Readers<'n, 'a> {
    nodes: &'n [NodeFile<'a>],
    scope: &'n Scope<'a, 'n>,
    /// Outputs of the graph, with their rows that are read at most.
    outputs: &'n [(&'a str, Option<usize>)],
    ledger: &'n Ledger,
}

impl Readers<'_, '_> {
    /// Rows of a result that are read at most: a `Slice` takes the first ones of it, or of a column
    /// of it, in this graph or where the results of a branch are read. `None` if others may be
    /// read, too.
    fn rows_of(&self, name: &str) -> Option<usize> {
        let mut name = name;
        for _ in 0..MAX_NODES {
            let mut readers = self.nodes.iter().filter(|node| reads(node, name));
            let mut outputs = self.outputs.iter().filter(|(output, _)| *output == name);
            let reader = match (readers.next(), outputs.next()) {
                (None, Some((_, rows))) if outputs.next().is_none() => return *rows,
                (Some(reader), None) if readers.next().is_none() => reader,
                _ => return None,
            };
            let is_first = reader.inputs.iter().position(|input| *input == name) == Some(0);
            if !is_first || !matches!(reader.domain, "" | "ai.onnx") {
                return None;
            }
            match reader.op {
                "Gather" if int(reader, "axis") == Some(1) => {}
                "Squeeze" if matches!(self.numbers(reader, "axes", 1, 0)?[..], [1 | -1]) => {}
                "Slice" => return self.end(reader),
                _ => return None,
            }
            name = reader.outputs.first()?;
        }
        None
    }

    /// End of a part that begins with the first row and has all up to it.
    fn end(&self, slice: &NodeFile<'_>) -> Option<usize> {
        let [starts, ends] = [("starts", 1), ("ends", 2)]
            .map(|(name, index)| self.numbers(slice, name, index, i64::MIN));
        let [axes, steps] = [("axes", 3, 0), ("steps", 4, 1)]
            .map(|(name, index, usual)| self.numbers(slice, name, index, usual));
        match (&starts?[..], &ends?[..], &axes?[..], &steps?[..]) {
            (&[0], &[end], &[0], &[1]) => usize::try_from(end).ok(),
            _ => None,
        }
    }

    /// Integers of an attribute, or of operand `index`, that are known; the usual one if it is left
    /// out.
    fn numbers(
        &self,
        node: &NodeFile<'_>,
        name: &str,
        index: usize,
        usual: i64,
    ) -> Option<Vec<i64>> {
        if let Some(found) = node.attributes.iter().find(|attribute| attribute.name == name) {
            return Some(found.ints.to_vec());
        }
        let Some(input) = node.inputs.get(index).filter(|input| !input.is_empty()) else {
            return Some(vec![usual]);
        };
        let known = |value: &Value| Some(value.known_values()?.array.values().to_i64());
        if let Some(value) = self.scope.own.get(*input) {
            return known(value);
        }
        // A later node may make it under a name of the graph around, which it hides.
        let makes = |node: &&NodeFile<'_>| node.outputs.contains(input);
        let Some(maker) = self.nodes.iter().find(makes) else {
            return self.scope.get(input).and_then(known);
        };
        if maker.op != "Constant" || !matches!(maker.domain, "" | "ai.onnx") {
            return None;
        }
        let attribute = maker.attributes.first()?;
        match &attribute.tensor {
            // Data of other files are not read for this.
            Some(tensor) => {
                let read = array(tensor, None, self.ledger).ok()?;
                Some(read.1.values().to_i64())
            }
            None => Some(attribute.ints.to_vec()).filter(|ints| !ints.is_empty()),
        }
    }
}

/// Returns whether a node, or a branch of it, selects boxes.
fn selects_boxes(node: &NodeFile<'_>) -> bool {
    let mut branches = node.attributes.iter().filter_map(|own| own.graph.as_deref());
    match node.op {
        "NonMaxSuppression" => true,
        "If" => branches.any(|branch| branch.nodes.iter().any(selects_boxes)),
        _ => false,
    }
}

/// Returns whether a node, or a graph in it, reads a name.
fn reads(node: &NodeFile<'_>, name: &str) -> bool {
    let graphs = || node.attributes.iter().filter_map(|own| own.graph.as_deref());
    node.inputs.contains(&name)
        || graphs().any(|graph| {
            graph.outputs.iter().any(|output| output.name == name)
                || graph.nodes.iter().any(|inner| reads(inner, name))
        })
}

fn int(node: &NodeFile<'_>, name: &str) -> Option<i64> {
    node.attributes.iter().find(|attribute| attribute.name == name)?.int
}
