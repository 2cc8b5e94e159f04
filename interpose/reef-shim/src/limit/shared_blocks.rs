//! Blocks of the driver that small allocations share. A block is charged as a whole until its last
//! allocation has ended, because the driver keeps it until then.
//!
//! The driver doesn't say which allocations share a block. Addresses of linear memory do. Arrays
//! have none, so they get addresses here: the first ones that are free, as in the driver.

use super::device::Limited;
use super::sizes::BLOCK;
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// First number of a block of arrays, above all that the driver has addresses for.
const ARRAYS: u64 = 1 << 42;

/// Part of a block that an allocation has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    at: u64,
    /// Number that no other part has: another allocation may get the address before the end of
    /// this one is noted.
    number: u64,
}

/// Block with allocations.
#[derive(Debug)]
struct Block {
    /// Its device and its context.
    owner: (i32, usize),
    /// Number of allocations that have not ended.
    count: u64,
    /// Bytes and numbers of parts by their addresses.
    parts: BTreeMap<u64, (u64, u64)>,
    /// Bytes of these parts.
    used: u64,
    /// True if other processes, or a file, may keep its memory.
    is_exported: bool,
}

/// Blocks by their numbers: addresses in units of a block.
#[derive(Debug, Default)]
struct Blocks {
    all: BTreeMap<u64, Block>,
    last: u64,
}

static BLOCKS: LazyLock<Mutex<Blocks>> = LazyLock::new(Mutex::default);
/// Locked by a thread that makes a small allocation, so that no other one takes the room for it.
static TURN: Mutex<()> = Mutex::new(());
/// Locked by a thread that makes or ends a small array.
static ARRAY_TURN: Mutex<()> = Mutex::new(());

fn blocks() -> MutexGuard<'static, Blocks> {
    BLOCKS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits until no other thread makes a small allocation.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits until no other thread makes or ends a small array.
pub(crate) fn array_turn() -> MutexGuard<'static, ()> {
    ARRAY_TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns whether a block of linear memory has room for an allocation in a context.
pub(crate) fn has_room(device: &Limited, context: usize, bytes: u64) -> bool {
    blocks().room(0..ARRAYS, (device.ordinal, context), bytes).is_some()
}

/// Notes an allocation of linear memory. Returns its part, and whether its block is a new one.
pub(crate) fn enter(device: &Limited, context: usize, at: usize, bytes: u64) -> (Part, bool) {
    blocks().enter((device.ordinal, context), at as u64, bytes)
}

/// Places an array in a block that has room for it. `None`: there is none.
pub(crate) fn place(device: &Limited, context: usize, bytes: u64) -> Option<Part> {
    let (mut blocks, owner) = (blocks(), (device.ordinal, context));
    let at = blocks.room(ARRAYS..u64::MAX, owner, bytes)?;
    Some(blocks.enter(owner, at, bytes).0)
}

/// Places an array in a new block.
pub(crate) fn begin(device: &Limited, context: usize, bytes: u64) -> Part {
    let mut blocks = blocks();
    let last = blocks.all.range(ARRAYS..).next_back().map(|(number, _)| *number);
    let number = last.map_or(ARRAYS, |last| last + 1);
    blocks.enter((device.ordinal, context), number * BLOCK, bytes).0
}

/// Notes the end of an allocation. Returns the bytes that the driver frees with it, and whether
/// something else may keep them.
pub(crate) fn leave(part: Part, is_exported: bool) -> (u64, bool) {
    let mut blocks = blocks();
    let Some(block) = blocks.all.get_mut(&part.block()) else { return (0, false) };
    block.count -= 1;
    block.is_exported |= is_exported;
    if let Some((bytes, number)) = block.parts.get(&part.at).copied()
        && number == part.number
    {
        block.parts.remove(&part.at);
        block.used -= bytes;
    }
    let (is_over, is_exported) = (block.count == 0, block.is_exported);
    if is_over {
        blocks.all.remove(&part.block());
    }
    (if is_over { BLOCK } else { 0 }, is_exported)
}

impl Blocks {
    /// Returns the first room in an owner's blocks of these numbers.
    fn room(&self, numbers: std::ops::Range<u64>, owner: (i32, usize), bytes: u64) -> Option<u64> {
        let mut its = self.all.range(numbers).filter(|(_, block)| block.owner == owner);
        its.find_map(|(number, block)| block.room(number * BLOCK, bytes))
    }

    fn enter(&mut self, owner: (i32, usize), at: u64, bytes: u64) -> (Part, bool) {
        self.last += 1;
        let part = Part { at, number: self.last };
        let new = || Block { owner, count: 0, parts: BTreeMap::new(), used: 0, is_exported: false };
        let block = self.all.entry(part.block()).or_insert_with(new);
        block.count += 1;
        let former = block.parts.insert(at, (bytes, part.number));
        block.used += bytes;
        block.used -= former.map_or(0, |(bytes, _)| bytes);
        (part, block.count == 1)
    }
}

impl Part {
    fn block(self) -> u64 {
        self.at / BLOCK
    }
}

impl Block {
    /// Returns the first address with room between two parts, or after the last one.
    fn room(&self, begin: u64, bytes: u64) -> Option<u64> {
        if self.used.saturating_add(bytes) > BLOCK {
            return None;
        }
        let mut free_from = begin;
        for (at, (part, _)) in &self.parts {
            if at.saturating_sub(free_from) >= bytes {
                return Some(free_from);
            }
            free_from = free_from.max(at.saturating_add(*part));
        }
        ((begin + BLOCK).saturating_sub(free_from) >= bytes).then_some(free_from)
    }
}
