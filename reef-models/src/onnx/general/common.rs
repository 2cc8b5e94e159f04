//! Nodes that compute what one before them has computed. Exporters repeat a selection for each
//! tensor that it is of; sizes that data decide must be the same value wherever two such tensors
//! meet.

use crate::memory::budget::Exhausted;
use crate::memory::ledger::Ledger;
use crate::onnx::file::{AttributeFile, GraphFile, NodeFile};
use std::collections::HashMap;

/// Operators that select as many as data decide.
const SELECTING: [&str; 4] = ["Compress", "NonMaxSuppression", "NonZero", "Unique"];
/// Bytes that a node and the names of its results take.
const NODE: u64 = 512;
/// Most numbers of an attribute that is compared.
const MAX_NUMBERS: usize = 64;

/// Nodes of one graph or function body, by what they compute.
#[derive(Default)]
pub(super) struct CommonNodes<'a> {
    nodes: HashMap<String, &'a NodeFile<'a>>,
    /// Names of the first of equal results, by those of the others.
    first: HashMap<&'a str, &'a str>,
}

impl<'a> CommonNodes<'a> {
    /// The node before this one that has computed the same, of which `rows` are read as well.
    /// Otherwise nodes after it may find it.
    pub(super) fn of(
        &mut self,
        node: &'a NodeFile<'a>,
        rows: Option<usize>,
    ) -> Option<&'a NodeFile<'a>> {
        let key = self.key(node, rows)?;
        let earlier = *self.nodes.get(&key)?;
        let pairs = node.outputs.iter().copied().zip(earlier.outputs.iter().copied());
        self.first.extend(pairs);
        Some(earlier)
    }

    /// Keeps a node for those after it.
    pub(super) fn keep(
        &mut self,
        node: &'a NodeFile<'a>,
        rows: Option<usize>,
        ledger: &Ledger,
    ) -> Result<(), Exhausted> {
        let Some(key) = self.key(node, rows) else { return Ok(()) };
        ledger.keep(NODE + key.len() as u64)?;
        self.nodes.insert(key, node);
        Ok(())
    }

    /// A text that nodes share which compute the same; `None` for graphs and large tensors.
    fn key(&self, node: &NodeFile<'a>, rows: Option<usize>) -> Option<String> {
        if !node.attributes.iter().all(is_small) {
            return None;
        }
        let first = |name: &&'a str| self.first.get(name).copied().unwrap_or(name);
        let inputs: Vec<&str> = node.inputs.iter().map(first).collect();
        let outputs: Vec<bool> = node.outputs.iter().map(|name| name.is_empty()).collect();
        let of = (node.op, node.domain, node.overload);
        Some(format!("{of:?} {inputs:?} {outputs:?} {rows:?} {:?}", node.attributes))
    }
}

/// True if some node selects as many as data decide.
pub(super) fn selects(nodes: &[NodeFile<'_>]) -> bool {
    let inner = |graph: &GraphFile<'_>| selects(&graph.nodes);
    nodes.iter().any(|node| {
        let mut graphs = node.attributes.iter().filter_map(|own| own.graph.as_deref());
        SELECTING.contains(&node.op) || graphs.any(inner)
    })
}

/// True if an attribute has no graph and few numbers.
fn is_small(own: &AttributeFile<'_>) -> bool {
    let lists = [own.floats.len(), own.ints.len(), own.texts.len()];
    let tensor = own.tensor.as_ref().map_or(0, |tensor| {
        let lists = [tensor.floats.len(), tensor.ints.len(), tensor.doubles.len()];
        let raw = tensor.raw.map_or(0, <[u8]>::len);
        lists.into_iter().sum::<usize>() + raw + tensor.texts.len() + tensor.dims.len()
    });
    let text = own.text.map_or(0, <[u8]>::len);
    own.graph.is_none() && lists.into_iter().sum::<usize>() + tensor + text <= MAX_NUMBERS
}
