//! Allocations of graphs: the memory that they take and give back.

use super::device_memory::{give_back, take};
use super::graph_memory::Block;
use super::op::Op;
use super::world::World;
use std::collections::{HashMap, HashSet};

const UNIT: u64 = 2 << 20;

impl World {
    /// A node's memory was made.
    pub(crate) fn note_of_graphs(&mut self, at: usize) {
        self.graph_memory.addresses.insert(at);
    }

    /// Takes memory for an executable graph. False: there is none left.
    pub(crate) fn back(&mut self, exec: usize) -> bool {
        let (mut bytes, mut live) = (0, HashMap::new());
        self.allocations(exec, &mut bytes, &mut 0, &mut live);
        let live: HashSet<_> = live.into_keys().collect();
        let memory = &mut self.graph_memory;
        if let Some(block) = memory.blocks.get_mut(&exec) {
            block.live = live;
            return true;
        }
        let from_spare = memory.spare.min(bytes);
        if bytes > from_spare && !take(bytes - from_spare) {
            return false;
        }
        memory.spare -= from_spare;
        if bytes > 0 {
            memory.blocks.insert(exec, Block { bytes, live, is_gone: false });
        }
        true
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
                Op::Memory { at, bytes } => {
                    *now += bytes.next_multiple_of(UNIT);
                    live.insert(at, bytes.next_multiple_of(UNIT));
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
        let memory = &mut self.graph_memory;
        memory.blocks.values_mut().for_each(|block| {
            block.live.remove(&at);
        });
        memory.end_blocks();
        memory.addresses.contains(&at)
    }

    /// An executable graph has ended. Its memory stays for others.
    pub(crate) fn end_exec(&mut self, exec: usize) {
        if let Some(block) = self.graph_memory.blocks.get_mut(&exec) {
            block.is_gone = true;
        }
        self.graph_memory.end_blocks();
    }

    /// Gives back what no graph that runs or has live allocations needs.
    pub(crate) fn trim_graphs(&mut self) {
        let idle = self.is_all_idle(None);
        let memory = &mut self.graph_memory;
        give_back(std::mem::take(&mut memory.spare));
        memory.blocks.retain(|_, block| {
            let is_used = !idle || !block.live.is_empty();
            if !is_used {
                give_back(block.bytes);
            }
            is_used
        });
    }
}
