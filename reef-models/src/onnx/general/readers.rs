//! Readers of a node's result, as far as they say how many rows of it are read.

use super::stored::array;
use super::walk::{Scope, Walk};
use crate::memory::ledger::Ledger;
use crate::onnx::file::NodeFile;

/// Most nodes between a selection of boxes and the part of them that is read.
const MAX_NODES: usize = 4;

impl<'a> Walk<'a, '_> {
    /// Rows of a node's first result that are read at most, if it selects boxes: choosing fewer
    /// takes fewer operations.
    pub(super) fn rows_read(
        &self,
        node: &NodeFile<'a>,
        nodes: &[NodeFile<'a>],
        scope: &Scope<'a, '_>,
    ) -> Option<usize> {
        if node.op != "NonMaxSuppression" || scope.outer.is_some() {
            return None;
        }
        let readers = Readers { nodes, scope, outputs: &self.outputs, ledger: self.builder.ledger };
        readers.rows_of(node)
    }
}

/// Nodes of a graph with what is known before they are read.
struct Readers<'n, 'a> {
    nodes: &'n [NodeFile<'a>],
    scope: &'n Scope<'a, 'n>,
    /// Names of the graph's outputs, all of whose rows are read.
    outputs: &'n [&'a str],
    ledger: &'n Ledger,
}

impl Readers<'_, '_> {
    /// Rows of a node's first result that are read at most: a `Slice` takes the first ones of it,
    /// or of a column of it. `None` if others may be read, too.
    fn rows_of(&self, node: &NodeFile<'_>) -> Option<usize> {
        let mut attributes = self.nodes.iter().flat_map(|node| node.attributes.iter());
        if attributes.any(|attribute| attribute.graph.is_some()) {
            return None; // a graph may read it
        }
        let mut name = *node.outputs.first()?;
        for _ in 0..MAX_NODES {
            let reader = self.only_reader(name)?;
            match reader.op {
                "Gather" if int(reader, "axis") == Some(1) => {}
                "Squeeze" if matches!(self.numbers(reader, "axes", 1, 0)?[..], [1 | -1]) => {}
                "Slice" => return self.end(reader),
                _ => return None,
            }
            name = *reader.outputs.first()?;
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

    /// The node that reads a name as its first operand, if no other does, nor an output.
    fn only_reader(&self, name: &str) -> Option<&NodeFile<'_>> {
        let mut readers = self.nodes.iter().filter(|node| node.inputs.contains(&name));
        let reader = readers.next()?;
        let is_first = reader.inputs.iter().position(|input| *input == name) == Some(0);
        let is_only = readers.next().is_none() && !self.outputs.contains(&name);
        let is_known = matches!(reader.domain, "" | "ai.onnx");
        Some(reader).filter(|_| is_first && is_only && is_known)
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
        if let Some(value) = self.scope.get(input) {
            return value.known_values().map(|known| known.array.values().to_i64());
        }
        let makes = |node: &&NodeFile<'_>| node.op == "Constant" && node.outputs.contains(input);
        let attribute = self.nodes.iter().find(makes)?.attributes.first()?;
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

fn int(node: &NodeFile<'_>, name: &str) -> Option<i64> {
    node.attributes.iter().find(|attribute| attribute.name == name)?.int
}
