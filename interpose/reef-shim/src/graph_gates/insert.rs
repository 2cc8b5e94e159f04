//! Insertion of gates and slices into a clone of a graph.

use super::calls;
use super::positions::GatePositions;
use super::shape::{Kind, Node, Shape};
use super::slices::{Kernels, Parts, SlicedNode};
use crate::kernel_variants::nodes::NodeSlices;
use std::collections::HashMap;

/// Clone with gates. It is destroyed with this value.
#[derive(Debug)]
pub(crate) struct GatedClone {
    pub(crate) graph: usize,
    /// The clone's nodes by the program's nodes.
    pub(super) nodes: HashMap<usize, usize>,
    /// The program's nodes by gates and slices before their own ones.
    inserted: HashMap<usize, usize>,
    /// Nodes in slices, by the program's nodes.
    pub(super) sliced: HashMap<usize, SlicedNode>,
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
    let (nodes, inserted, sliced, children) = Default::default();
    let mut gated = GatedClone { graph: calls::clone(graph)?, nodes, inserted, sliced, children };
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
        let stays = |node: &Node| !positions.are_dropped || !node.is_gate();
        let pairs = shape.nodes.iter().zip(&clones).filter(|(node, _)| stays(node));
        self.nodes.extend(pairs.map(|(node, clone)| (node.handle, *clone)));
        if positions.are_dropped {
            drop_gates(graph, shape, &clones)?;
        }
        let place = |at: usize| {
            let (node, clone) = (shape.nodes.get(at)?, *clones.get(at)?);
            let before = node.after.iter().filter_map(|at| clones.get(*at).copied()).collect();
            Some((node, InsertionPoint { graph, clone, before, gate }))
        };
        for &at in &positions.kernels {
            let (node, place) = place(at)?;
            self.inserted.insert(place.insert_gate()?, node.handle);
        }
        for (at, slices) in &positions.slices {
            let (node, place) = place(*at)?;
            let Inserted { gates, nodes, kernels } = place.insert_slices(node, slices)?;
            let inserted = gates.iter().chain(&nodes).map(|inserted| (*inserted, node.handle));
            self.inserted.extend(inserted);
            let (slices, kernels) = (slices.clone(), Some(kernels));
            self.sliced.insert(node.handle, SlicedNode { slices, nodes, kernels });
        }
        for (at, node) in shape.nodes.iter().enumerate() {
            let Kind::Child(inner) = &node.kind else { continue };
            let child = calls::child(*clones.get(at)?)?;
            let of_child = positions.child(at).cloned().unwrap_or_default();
            let positions = GatePositions { are_dropped: positions.are_dropped, ..of_child };
            self.fill(child, inner, &positions, gate)?;
            self.children.insert(node.handle, positions);
        }
        Some(())
    }

    /// Returns the program's node that a node of the clone was made from, or inserted for. `None`:
    /// it is not a node of the clone.
    pub(crate) fn original(&self, clone: usize) -> Option<usize> {
        let of = self.nodes.iter().find(|(_, node)| **node == clone).map(|(original, _)| *original);
        of.or_else(|| self.inserted.get(&clone).copied())
    }
}

/// Removes the gates of the capture from a graph of the clone. Nodes that came after one come after
/// the nodes before it.
fn drop_gates(graph: usize, shape: &Shape, clones: &[usize]) -> Option<()> {
    let all = shape.nodes.iter().zip(clones).enumerate();
    for (at, (_, clone)) in all.clone().filter(|(_, (node, _))| !node.is_gate()) {
        for before in shape.before_gates(at) {
            calls::connect(graph, *clones.get(before)?, *clone)?;
        }
    }
    let mut gates = all.filter(|(_, (node, _))| node.is_gate());
    gates.try_for_each(|(_, (_, clone))| calls::remove(*clone))
}

/// Gates and slices of a node. The last slice is the node itself.
#[derive(Debug)]
struct Inserted {
    gates: Vec<usize>,
    nodes: Vec<usize>,
    kernels: Kernels,
}

/// Node of a clone, before which something is inserted.
#[derive(Debug)]
struct InsertionPoint {
    graph: usize,
    clone: usize,
    before: Vec<usize>,
    gate: Gate,
}

impl InsertionPoint {
    /// Inserts a gate between the node and its predecessors, and returns it.
    fn insert_gate(&self) -> Option<usize> {
        let added = self.add_gate(&self.before)?;
        self.take_place(added)?;
        Some(added)
    }

    fn add_gate(&self, after: &[usize]) -> Option<usize> {
        calls::add_gate(self.graph, after, self.gate.context, self.gate.address)
    }

    /// Puts a node between the node and its predecessors, which it is behind already.
    fn take_place(&self, added: usize) -> Option<()> {
        calls::disconnect(self.graph, &self.before, self.clone)?;
        calls::connect(self.graph, added, self.clone)
    }

    /// Inserts slices of a kernel, each with a gate before it. The last one is the node itself.
    /// `node` is that of the program's graph.
    fn insert_slices(&self, node: &Node, slices: &NodeSlices) -> Option<Inserted> {
        let launch = node.launch()?;
        let parts = Parts::of(slices, &launch);
        let mut gate = self.add_gate(&self.before)?;
        let (mut gates, mut nodes) = (vec![gate], Vec::new());
        for at in 0..slices.count() - 1 {
            let added = parts.with(at, |params| {
                // SAFETY: an address of each parameter.
                unsafe { calls::add_kernel(self.graph, gate, params) }
            });
            let added = added??;
            if launch.is_simple {
                calls::copy_attributes(added, self.clone)?;
            }
            nodes.push(added);
            gate = self.add_gate(&[added])?;
            gates.push(gate);
        }
        self.take_place(gate)?;
        // SAFETY: `parts.with` makes parameters with an address of each of the kernel's parameters,
        // which live during the call.
        let set = |params: &_| unsafe { calls::set_kernel(self.clone, params) };
        if parts.are_slices() {
            parts.with(slices.count() - 1, set)??;
        }
        nodes.push(self.clone);
        Some(Inserted { gates, nodes, kernels: parts.kernels })
    }
}
