//! A clone of a graph, with gates in it.

use super::calls;
use super::positions::GatePositions;
use super::shape::{Kind, Shape};
use std::collections::HashMap;

/// A clone with gates. It is destroyed with this value.
#[derive(Debug)]
pub(crate) struct GatedClone {
    pub(crate) graph: usize,
    /// The program's nodes, and the clone's that were made from them.
    pub(super) nodes: HashMap<usize, usize>,
    /// The program's nodes that have a graph inside, and where its gates are.
    pub(super) children: HashMap<usize, GatePositions>,
}

impl Drop for GatedClone {
    fn drop(&mut self) {
        calls::destroy(self.graph);
    }
}

/// What gates wait for, and in which context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    pub(crate) context: usize,
    pub(crate) address: u64,
}

/// Clones a graph and puts gates at these positions. `None`: the driver refused a step, or there
/// are no such positions.
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
    /// Puts gates into a graph of the clone; `shape` is the program's.
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
            gate_in_front(graph, *clones.get(at)?, &before, gate)?;
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

    /// The program's node that a node of the clone was made from. `None`: a gate, or none of the
    /// clone's.
    pub(crate) fn original(&self, clone: usize) -> Option<usize> {
        self.nodes.iter().find(|(_, node)| **node == clone).map(|(original, _)| *original)
    }
}

/// Puts a gate between a node and those that it comes after.
fn gate_in_front(graph: usize, node: usize, before: &[usize], gate: Gate) -> Option<()> {
    let added = calls::add_gate(graph, before, gate.context, gate.address)?;
    calls::disconnect(graph, before, node)?;
    calls::connect(graph, added, node)
}
