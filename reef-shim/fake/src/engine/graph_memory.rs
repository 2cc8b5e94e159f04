//! Memory of graphs: it is taken when a graph is launched or uploaded, and kept until a call trims
//! it.

use std::collections::{HashMap, HashSet};

/// All memory that graphs have.
#[derive(Debug, Default)]
pub(crate) struct GraphMemory {
    /// Of executable graphs that have been launched.
    pub(super) blocks: HashMap<usize, Block>,
    /// Bytes that ended graphs have left.
    pub(super) spare: u64,
    /// Addresses of nodes' memory.
    pub(super) addresses: HashSet<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) bytes: u64,
    /// Allocations that no node of the graph ends.
    pub(super) live: HashSet<usize>,
    pub(super) is_gone: bool,
}

impl GraphMemory {
    pub(super) fn end_blocks(&mut self) {
        let spare = &mut self.spare;
        self.blocks.retain(|_, block| {
            let has_ended = block.is_gone && block.live.is_empty();
            if has_ended {
                *spare += block.bytes;
            }
            !has_ended
        });
    }

    /// Bytes that the driver has taken for graphs, and those of them that graphs have.
    pub(crate) fn reserved(&self) -> (u64, u64) {
        let used = self.blocks.values().map(|block| block.bytes).sum();
        (self.spare + used, used)
    }
}
