//! Nodes of a graph that stand before those whose results they read. ONNX wants them sorted, and
//! ONNX Runtime sorts them.

use super::call::Outer;
use super::walk::{Scope, Walk};
use crate::memory::budget::Exhausted;
use crate::onnx::fault::Fault;
use crate::onnx::file::NodeFile;
use crate::onnx::node::name_of;
use std::collections::HashMap;

/// Bytes that a node takes while it is sorted.
const NODE: u64 = 256;

impl<'a> Walk<'a, '_> {
    /// Reads the nodes from `from` on, of which the first has this fault. It stays if no later node
    /// makes an operand of that one.
    pub(super) fn unsorted_nodes(
        &mut self,
        nodes: &'a [NodeFile<'a>],
        from: usize,
        scope: &mut Scope<'a, '_>,
        outer: &Outer<'a>,
        depth: usize,
        fault: Fault,
    ) -> Result<(), Fault> {
        let (ledger, rest) = (self.builder.ledger, &nodes[from..]);
        if ledger.refusal().is_some() {
            return Err(fault);
        }
        let short = |why: Exhausted| Fault::at_node(name_of(&rest[0]), rest[0].op, why.into());
        // For good: functions that call each other may have to be sorted again and again.
        ledger.keep(NODE * rest.len() as u64).map_err(short)?;
        let order = sorted(rest).filter(|order| order.first() != Some(&0));
        let Some(order) = order else { return Err(fault) };
        self.unbound.clear();
        for k in order {
            self.read_node(&rest[k], nodes, scope, outer, depth)?;
        }
        Ok(())
    }
}

/// Numbers of nodes, those that make a node's operands before its own. `None` if there is a circle.
fn sorted(nodes: &[NodeFile<'_>]) -> Option<Vec<usize>> {
    let mut makers = HashMap::new();
    for (k, node) in nodes.iter().enumerate() {
        makers.extend(node.outputs.iter().filter(|name| !name.is_empty()).map(|name| (*name, k)));
    }
    let mut order = Vec::with_capacity(nodes.len());
    let (mut is_seen, mut is_done) = (vec![false; nodes.len()], vec![false; nodes.len()]);
    for (first, node) in nodes.iter().enumerate() {
        if std::mem::replace(&mut is_seen[first], true) {
            continue;
        }
        let mut open = vec![(first, makers_of(node, &makers))];
        while let Some((number, left)) = open.last_mut() {
            match left.pop() {
                None => {
                    is_done[*number] = true;
                    order.push(*number);
                    open.pop();
                }
                Some(maker) if is_done[maker] => {}
                Some(maker) if std::mem::replace(&mut is_seen[maker], true) => return None,
                Some(maker) => open.push((maker, makers_of(&nodes[maker], &makers))),
            }
        }
    }
    Some(order)
}

/// Numbers of the nodes that make what a node and the graphs in it read.
fn makers_of(node: &NodeFile<'_>, makers: &HashMap<&str, usize>) -> Vec<usize> {
    let own = node.inputs.iter().filter_map(|name| makers.get(*name).copied());
    let mut all: Vec<usize> = own.collect();
    for graph in node.attributes.iter().filter_map(|attribute| attribute.graph.as_deref()) {
        all.extend(graph.outputs.iter().filter_map(|output| makers.get(output.name).copied()));
        all.extend(graph.nodes.iter().flat_map(|inner| makers_of(inner, makers)));
    }
    all
}
