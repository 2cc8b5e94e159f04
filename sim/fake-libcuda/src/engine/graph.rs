//! Graphs: operations and what each comes after.

use super::op::Op;
use std::collections::{BTreeMap, HashMap, HashSet};

/// An operation of a graph, and the nodes that it comes after, by their names.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The program's handle. Executable graphs keep the names of the graph that they were made
    /// from.
    pub(crate) name: usize,
    /// The node that this one was cloned from.
    pub(crate) origin: usize,
    pub(crate) op: Op,
    pub(crate) after: Vec<usize>,
    /// Its edges say that it may begin before those have ended. Here it doesn't.
    pub(crate) overlaps: bool,
    /// A kernel's attributes that the program has set, by number.
    pub(crate) attributes: Attributes,
    /// Of an executable graph: it does nothing.
    pub(crate) is_disabled: bool,
}

pub(crate) type Attributes = BTreeMap<u32, [u64; 8]>;

impl Node {
    pub(crate) fn new(name: usize, op: Op, after: Vec<usize>) -> Self {
        let attributes = Attributes::new();
        Self { name, origin: 0, op, after, overlaps: false, attributes, is_disabled: false }
    }

    /// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`, which no update changes.
    pub(crate) fn is_cooperative(&self) -> bool {
        self.attributes.get(&2).is_some_and(|value| value[0] != 0)
    }
}

/// A graph, captured, built or instantiated.
pub(crate) type Graph = Vec<Node>;

/// All graphs, and those inside of their nodes.
pub(crate) type Graphs = HashMap<usize, Graph>;

/// The nodes of a graph as they run: those of a child graph come before its node, which does
/// nothing itself.
pub(crate) fn flatten(graphs: &Graphs, graph: usize) -> Graph {
    let mut flat = Graph::new();
    for node in graphs.get(&graph).into_iter().flatten() {
        let child = match node.op {
            Op::Child(child) | Op::If { body: child, runs: true } => child,
            _ => {
                let op = if node.is_disabled { Op::Empty } else { node.op };
                flat.push(Node { op, ..node.clone() });
                continue;
            }
        };
        let mut inner = flatten(graphs, child);
        let ends = ends(&inner);
        let roots = inner.iter_mut().filter(|inner| inner.after.is_empty());
        roots.for_each(|root| root.after.clone_from(&node.after));
        flat.append(&mut inner);
        let after = if ends.is_empty() { node.after.clone() } else { ends };
        flat.push(Node::new(node.name, Op::Empty, after));
    }
    flat
}

/// Nodes that nothing comes after.
fn ends(graph: &Graph) -> Vec<usize> {
    let passed: HashSet<_> = graph.iter().flat_map(|node| &node.after).collect();
    graph.iter().map(|node| node.name).filter(|name| !passed.contains(name)).collect()
}

/// Each node's place, and the places that it comes after, in order.
pub(crate) fn places(graph: &Graph) -> Vec<Vec<usize>> {
    let place: HashMap<_, _> = graph.iter().enumerate().map(|(at, node)| (node.name, at)).collect();
    let sorted = |node: &Node| {
        let mut after: Vec<_> = node.after.iter().map(|name| place[name]).collect();
        after.sort_unstable();
        after
    };
    graph.iter().map(sorted).collect()
}

/// A launch of a graph: which of its nodes have run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    nodes: Graph,
    after: Vec<Vec<usize>>,
    done: Vec<bool>,
}

impl Run {
    pub(crate) fn new(nodes: Graph) -> Self {
        let (done, after) = (vec![false; nodes.len()], places(&nodes));
        Self { nodes, after, done }
    }

    /// Nodes that may run now, as far as their edges say.
    pub(crate) fn ready(&self) -> impl Iterator<Item = (usize, &Op)> {
        let is_ready = |(at, _): &(usize, &Node)| {
            !self.done[*at] && self.after[*at].iter().all(|&before| self.done[before])
        };
        self.nodes.iter().enumerate().filter(is_ready).map(|(at, node)| (at, &node.op))
    }

    pub(crate) fn finish(&mut self, node: usize) {
        self.done[node] = true;
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.iter().all(|&done| done)
    }
}

/// A capture that is going on.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    pub(crate) nodes: Graph,
    pub(crate) is_invalid: bool,
    /// The stream where it began.
    pub(crate) origin: u64,
    pub(crate) goal: Goal,
}

/// Result of a capture.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Goal {
    #[default]
    NewGraph,
    /// Nodes of this graph, after those that it has.
    Into(usize),
    /// Other operations for the nodes of this graph, which has to have the same shape.
    Again(usize),
    /// A list of commands of another caller.
    Commands,
}

impl Capture {
    /// Adds a node after `tail`, which it becomes.
    pub(crate) fn add(&mut self, name: usize, op: Op, tail: &mut Vec<usize>) {
        let after = std::mem::replace(tail, vec![name]);
        self.nodes.push(Node::new(name, op, after));
    }

    /// Returns whether everything else comes before the nodes of `tail`.
    pub(crate) fn is_joined(&self, tail: &[usize], others: &[usize]) -> bool {
        let (mut reached, mut next) = (HashSet::new(), tail.to_vec());
        while let Some(name) = next.pop() {
            if reached.insert(name) {
                let node = self.nodes.iter().find(|node| node.name == name);
                next.extend(node.into_iter().flat_map(|node| &node.after));
            }
        }
        others.iter().all(|name| reached.contains(name))
    }
}
