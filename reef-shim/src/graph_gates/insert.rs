//! Insertion of gates into a clone of a graph.

use super::calls;
use super::positions::GatePositions;
use super::shape::{Kind, Shape};
use std::collections::HashMap;

/// Clone with gates. It is destroyed with this value.
#[derive(Debug)]
pub(crate) struct GatedClone {
    pub(crate) graph: usize,
    /// The clone's nodes by the program's nodes.
    pub(super) nodes: HashMap<usize, usize>,
    /// Positions of gates in child graphs, by the program's nodes.
    pub(super) children: HashMap<usize, GatePositions>,
}

impl Drop for GatedClone {
    fn drop(&mut self) {
        calls::destroy(self.graph);
    }
}

/// Word that gates wait on, and the context in which they wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    pub(crate) context: usize,
    pub(crate) address: u64,
}

/// Clones a graph and puts gates at these positions. `None`: the driver refused a step, or the
/// graph lacks a position.
pub(crate) fn insert(
    graph: usize,
    shape: &Shape,
    positions: &GatePositions,
    gate: Gate,
) -> Option<GatedClone> {
    let mut gated =
        GatedClone { graph: calls::clone(graph)?, nodes: HashMap::new(), children: HashMap::new() };
    let clone = gated.graph;
    gated.fill(clone, shape, positions, gate)?;
    Some(gated)
}

impl GatedClone {
    /// Inserts gates into a graph of the clone. `shape` is that of the program's graph.
    fn fill(
        &mut self,
        graph: usize,
        shape: &Shape,
        positions: &GatePositions,
        gate: Gate,
    ) -> Option<()> {
        let clones = shape.nodes.iter().map(|node| calls::find(node.handle, graph));
        let clones: Vec<usize> = clones.collect::<Option<_>>()?;
        let pairs = shape.nodes.iter().zip(&clones).map(|(node, clone)| (node.handle, *clone));
        self.nodes.extend(pairs);
        for &at in &positions.kernels {
            let before = shape.nodes.get(at)?.after.iter();
            let before: Vec<_> = before.filter_map(|at| clones.get(*at).copied()).collect();
            insert_before(graph, *clones.get(at)?, &before, gate)?;
        }
        for (at, node) in shape.nodes.iter().enumerate() {
            let Kind::Child(inner) = &node.kind else { continue };
            let child = calls::child(*clones.get(at)?)?;
            let positions = positions.child(at).cloned().unwrap_or_default();
            self.fill(child, inner, &positions, gate)?;
            self.children.insert(node.handle, positions);
        }
        Some(())
    }

    /// Returns the program's node that a node of the clone was made from. `None`: it is a gate, or
    /// not a node of the clone.
    pub(crate) fn original(&self, clone: usize) -> Option<usize> {
        self.nodes.iter().find(|(_, node)| **node == clone).map(|(original, _)| *original)
    }
}

/// Inserts a gate between a node and its predecessors.
fn insert_before(graph: usize, node: usize, before: &[usize], gate: Gate) -> Option<()> {
    let added = calls::add_gate(graph, before, gate.context, gate.address)?;
    calls::disconnect(graph, before, node)?;
    calls::connect(graph, added, node)
}
