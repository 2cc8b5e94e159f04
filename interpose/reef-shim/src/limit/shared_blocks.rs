//! Blocks of the driver that small allocations share. A block is charged as a whole until its last
//! allocation has ended, because the driver keeps it until then.
//!
//! The driver doesn't say which allocations share a block: their addresses do.

use super::device::Limited;
use super::sizes::BLOCK;
use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Part of a block that an allocation has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    at: usize,
    /// Number that no other part has: another allocation may get the address before the end of
    /// this one is noted.
    number: u64,
}

/// Block with allocations.
#[derive(Debug)]
struct Block {
    ordinal: i32,
    /// Number of allocations that have not ended.
    count: u64,
    /// Bytes and numbers of parts by their addresses.
    parts: BTreeMap<usize, (u64, u64)>,
    /// True if other processes, or a file, may keep its memory.
    is_exported: bool,
}

/// Blocks by their numbers: addresses in units of a block.
#[derive(Debug, Default)]
struct Blocks {
    all: HashMap<u64, Block>,
    last: u64,
}

static BLOCKS: LazyLock<Mutex<Blocks>> = LazyLock::new(Mutex::default);
/// Locked by a thread that makes a small allocation, so that no other one takes the room for it.
static TURN: Mutex<()> = Mutex::new(());

fn blocks() -> MutexGuard<'static, Blocks> {
    BLOCKS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits until no other thread makes a small allocation.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns whether a block of a device has room for an allocation.
pub(crate) fn have_room(device: &Limited, bytes: u64) -> bool {
    let blocks = blocks();
    let mut its = blocks.all.iter().filter(|(_, block)| block.ordinal == device.ordinal);
    its.any(|(number, block)| block.has_room(number * BLOCK, bytes))
}

/// Notes an allocation. Returns its part, and whether its block is a new one.
pub(crate) fn enter(device: &Limited, at: usize, bytes: u64) -> (Part, bool) {
    let mut blocks = blocks();
    blocks.last += 1;
    let part = Part { at, number: blocks.last };
    let new =
        || Block { ordinal: device.ordinal, count: 0, parts: BTreeMap::new(), is_exported: false };
    let block = blocks.all.entry(part.block()).or_insert_with(new);
    block.count += 1;
    block.parts.insert(at, (bytes, part.number));
    (part, block.count == 1)
}

/// Notes the end of an allocation. Returns the bytes that the driver frees with it, and whether
/// something else may keep them.
pub(crate) fn leave(part: Part, is_exported: bool) -> (u64, bool) {
    let mut blocks = blocks();
    let Some(block) = blocks.all.get_mut(&part.block()) else { return (0, false) };
    block.count -= 1;
    block.is_exported |= is_exported;
    if block.parts.get(&part.at).is_some_and(|(_, number)| *number == part.number) {
        block.parts.remove(&part.at);
    }
    let (is_over, is_exported) = (block.count == 0, block.is_exported);
    if is_over {
        blocks.all.remove(&part.block());
    }
    (if is_over { BLOCK } else { 0 }, is_exported)
}

impl Part {
    fn block(self) -> u64 {
        self.at as u64 / BLOCK
    }
}

impl Block {
    /// Returns whether there is room between two parts, or after the last one.
    fn has_room(&self, begin: u64, bytes: u64) -> bool {
        let mut free_from = begin;
        for (at, (part, _)) in &self.parts {
            let at = *at as u64;
            if at.saturating_sub(free_from) >= bytes {
                return true;
            }
            free_from = free_from.max(at.saturating_add(*part));
        }
        (begin + BLOCK).saturating_sub(free_from) >= bytes
    }
}
