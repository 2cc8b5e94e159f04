//! Graphs that are made from others.

use super::graph::{Graph, Node, places};
use super::op::Op;
use super::world::World;
use std::collections::HashMap;

impl World {
    /// A graph like this one, with all that is inside of its nodes. Nodes get new names, or keep
    /// those that they have.
    pub(crate) fn copy(&mut self, graph: usize, keeps_names: bool) -> Option<usize> {
        let nodes = self.graphs.get(&graph)?.clone();
        let name = |world: &mut Self, old| if keeps_names { old } else { world.handle() };
        let names: HashMap<_, _> =
            nodes.iter().map(|node| (node.name, name(self, node.name))).collect();
        let mut copy = Graph::new();
        for node in nodes {
            let op = match node.op {
                Op::Child(child) => Op::Child(self.copy(child, keeps_names)?),
                op => op,
            };
            let after = node.after.iter().map(|before| names[before]).collect();
            copy.push(Node { name: names[&node.name], origin: node.name, op, after, ..node });
        }
        let ended = if keeps_names { self.ended_exec.take() } else { None };
        let handle = ended.unwrap_or_else(|| self.handle());
        self.graphs.insert(handle, copy);
        if keeps_names {
            self.execs.insert(handle);
        }
        Some(handle)
    }

    /// Operation of a node that a capture makes of `op`: a launch of a graph becomes a node with
    /// the graph in it.
    pub(crate) fn as_node(&mut self, op: Op) -> Option<Op> {
        match op {
            Op::Graph(exec) => Some(Op::Child(self.copy(exec, false)?)),
            op => Some(op),
        }
    }

    /// Forgets a graph and those inside of it. False: there is none.
    pub(crate) fn forget(&mut self, graph: usize) -> bool {
        let Some(nodes) = self.graphs.remove(&graph) else { return false };
        for node in nodes {
            if let Op::Child(inner) | Op::If { body: inner, .. } = node.op {
                self.forget(inner);
            }
        }
        true
    }

    /// Returns whether the body of a conditional node has memory operations in it, which the driver
    /// doesn't take.
    pub(crate) fn has_forbidden(&self, graph: usize) -> bool {
        let is_body = self.bodies.contains(&graph);
        self.graphs.get(&graph).into_iter().flatten().any(|node| match node.op {
            Op::Child(inner) if is_body && self.has_operations(inner) => true,
            Op::Child(inner) | Op::If { body: inner, .. } => self.has_forbidden(inner),
            op => is_body && op.kind() == 12,
        })
    }

    /// Returns whether a graph, or one inside of it, has memory operations. The driver takes none
    /// in graphs that kernels launch.
    pub(crate) fn has_operations(&self, graph: usize) -> bool {
        self.graphs.get(&graph).into_iter().flatten().any(|node| match node.op {
            Op::Child(inner) => self.has_operations(inner),
            op => op.kind() == 12,
        })
    }

    /// Returns whether a graph, or one inside of it, has memory nodes.
    pub(crate) fn has_memory(&self, graph: usize) -> bool {
        self.graphs.get(&graph).into_iter().flatten().any(|node| match node.op {
            Op::Child(inner) | Op::If { body: inner, .. } => self.has_memory(inner),
            op => op.kind() == 10,
        })
    }

    /// Gives `to` the operations of `from`, if both have the same shape. `Err`: where they differ,
    /// a node of `from`.
    pub(crate) fn update(&mut self, to: usize, from: usize) -> Result<(), usize> {
        self.compare(to, from)?;
        self.overwrite(to, from);
        Ok(())
    }

    fn compare(&self, to: usize, from: usize) -> Result<(), usize> {
        let (old, new) = (&self.graphs[&to], &self.graphs[&from]);
        let (old_places, new_places) = (places(old), places(new));
        for (at, node) in new.iter().enumerate() {
            let is_same = old.get(at).is_some_and(|old| {
                old.op.kind() == node.op.kind() && old.is_cooperative() == node.is_cooperative()
            }) && old_places[at] == new_places[at];
            let inner = match (old.get(at).map(|old| old.op), node.op) {
                (Some(Op::Child(old)), Op::Child(new)) => self.compare(old, new),
                _ => Ok(()),
            };
            if !is_same || inner.is_err() {
                return Err(node.name);
            }
        }
        if old.len() == new.len() { Ok(()) } else { Err(0) }
    }

    fn overwrite(&mut self, to: usize, from: usize) {
        for at in 0..self.graphs[&from].len() {
            match (self.graphs[&to][at].op, self.graphs[&from][at].op) {
                (Op::Child(old), Op::Child(new)) => self.overwrite(old, new),
                (_, op) => {
                    let attributes = self.graphs[&from][at].attributes.clone();
                    let node = &mut self.graphs.get_mut(&to).expect("was there")[at];
                    (node.op, node.attributes) = (op, attributes);
                }
            }
        }
    }

    /// The node of this name in a graph, or in one inside of it.
    pub(crate) fn node(&mut self, graph: usize, name: usize) -> Option<&mut Node> {
        let nodes = self.graphs.get(&graph)?;
        if let Some(at) = nodes.iter().position(|node| node.name == name) {
            return self.graphs.get_mut(&graph)?.get_mut(at);
        }
        let inner = |node: &Node| match node.op {
            Op::Child(inner) | Op::If { body: inner, .. } => Some(inner),
            _ => None,
        };
        let inner: Vec<_> = nodes.iter().filter_map(inner).collect();
        let found = inner.into_iter().find(|&child| self.node(child, name).is_some())?;
        self.node(found, name)
    }

    /// The graph that a node is in.
    pub(crate) fn graph_of(&self, name: usize) -> Option<usize> {
        let has = |graph: &Graph| graph.iter().any(|node| node.name == name);
        let all = self.graphs.iter().filter(|(graph, _)| !self.execs.contains(graph));
        all.into_iter().find(|(_, nodes)| has(nodes)).map(|(graph, _)| *graph)
    }
}
