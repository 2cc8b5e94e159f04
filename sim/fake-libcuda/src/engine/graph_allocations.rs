//! Allocations of graphs: what a launch needs, and what lives on.

use super::graph_memory::PAGE;
use super::op::Op;
use super::world::World;
use std::collections::{HashMap, HashSet};

impl World {
    /// A node's memory was made.
    pub(crate) fn note_of_graphs(&mut self, at: usize) {
        self.graph_memory.addresses.insert(at);
    }

    /// The memory of a node is the host's.
    pub(crate) fn note_of_host(&mut self, at: usize) {
        self.graph_memory.of_host.insert(at);
    }

    /// Returns whether the memory of a node is the host's.
    pub(crate) fn is_of_host(&self, at: usize) -> bool {
        self.graph_memory.of_host.contains(&at)
    }

    /// Takes memory for an executable graph in a stream. False: there is none left.
    pub(crate) fn back(&mut self, exec: usize, stream: u64) -> bool {
        let (mut bytes, mut live) = (0, HashMap::new());
        self.allocations(exec, &mut bytes, &mut 0, &mut live);
        let live: HashSet<_> = live.into_keys().collect();
        self.graph_memory.back(exec, bytes, live, stream)
    }

    /// The most that nodes of a graph have in their order, what of that is there in the end, and
    /// where.
    fn allocations(
        &self,
        graph: usize,
        peak: &mut u64,
        now: &mut u64,
        live: &mut HashMap<usize, u64>,
    ) {
        for node in self.graphs.get(&graph).into_iter().flatten() {
            match node.op {
                Op::Memory { at, .. } if self.is_of_host(at) => {}
                Op::Memory { at, bytes } => {
                    *now += bytes.next_multiple_of(PAGE);
                    live.insert(at, bytes.next_multiple_of(PAGE));
                }
                Op::Free(at) => *now -= live.remove(&at).unwrap_or(0),
                Op::Child(child) => self.allocations(child, peak, now, live),
                _ => {}
            }
            *peak = (*peak).max(*now);
        }
    }

    /// Ends an allocation of a graph. False: it isn't one.
    pub(crate) fn free_of_graphs(&mut self, at: usize) -> bool {
        self.graph_memory.free(at)
    }

    /// An executable graph has ended.
    pub(crate) fn end_exec(&mut self, exec: usize) {
        self.graph_memory.destroy(exec);
    }

    /// Gives back what no graph that runs or has live allocations needs.
    pub(crate) fn trim_graphs(&mut self) {
        self.graph_memory.trim();
    }
}
