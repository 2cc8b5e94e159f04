//! Graphs: operations and what each comes after.

use super::op::Op;

/// An operation of a graph, and the nodes that it comes after.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) after: Vec<usize>,
}

/// A graph, captured or instantiated.
pub(crate) type Graph = Vec<Node>;

/// A launch of a graph: which of its nodes have run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    nodes: Graph,
    done: Vec<bool>,
}

impl Run {
    pub(crate) fn new(nodes: Graph) -> Self {
        let done = vec![false; nodes.len()];
        Self { nodes, done }
    }

    /// Nodes that may run now, as far as their edges say.
    pub(crate) fn ready(&self) -> impl Iterator<Item = (usize, &Op)> {
        let is_ready = |(at, node): &(usize, &Node)| {
            !self.done[*at] && node.after.iter().all(|&before| self.done[before])
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
}

impl Capture {
    /// Adds a node after `tail`, which it becomes.
    pub(crate) fn add(&mut self, op: Op, tail: &mut Vec<usize>) {
        self.nodes.push(Node { op, after: std::mem::take(tail) });
        tail.push(self.nodes.len() - 1);
    }
}
