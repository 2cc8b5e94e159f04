//! Blocks of the driver that small allocations share. A block is charged as a whole until its last
//! allocation has ended, because the driver keeps it until then.
//!
//! The driver doesn't say which allocations share a block. Addresses of linear memory do. Arrays
//! have none, so they get addresses here: the first ones that are free, as in the driver.

use super::device::Limited;
use super::sizes::BLOCK;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// First number of a block of arrays, above all that the driver has addresses for.
const ARRAYS: u64 = 1 << 42;

/// Address of an allocation in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part(u64);

/// Block with allocations.
#[derive(Debug)]
struct Block {
    /// Its device and its context.
    owner: (i32, usize),
    /// Number of allocations that have not ended.
    count: u64,
    /// Bytes of arrays by their addresses.
    arrays: BTreeMap<u64, u64>,
    /// Bytes of these arrays.
    used: u64,
    /// True if other processes, or a file, may keep its memory.
    is_exported: bool,
}

/// Blocks by their numbers: addresses in units of a block.
type Blocks = BTreeMap<u64, Block>;

static BLOCKS: Mutex<Blocks> = Mutex::new(BTreeMap::new());
/// Locked by a thread that makes or ends a small array.
static ARRAY_TURN: Mutex<()> = Mutex::new(());

fn blocks() -> MutexGuard<'static, Blocks> {
    BLOCKS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits until no other thread makes or ends a small array.
pub(crate) fn array_turn() -> MutexGuard<'static, ()> {
    ARRAY_TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Notes an allocation of linear memory. Returns its part, and whether its block is a new one.
pub(crate) fn enter(device: &Limited, context: usize, at: usize) -> (Part, bool) {
    let part = Part(at as u64);
    let mut blocks = blocks();
    let block = block_of(&mut blocks, part, (device.ordinal, context));
    block.count += 1;
    (part, block.count == 1)
}

/// Places an array in a block that has room for it. `None`: there is none.
pub(crate) fn place(device: &Limited, context: usize, bytes: u64) -> Option<Part> {
    let (mut blocks, owner) = (blocks(), (device.ordinal, context));
    let mut its = blocks.range(ARRAYS..).filter(|(_, block)| block.owner == owner);
    let at = its.find_map(|(number, block)| block.room(number * BLOCK, bytes))?;
    Some(add_array(&mut blocks, owner, at, bytes))
}

/// Places an array in a new block.
pub(crate) fn begin(device: &Limited, context: usize, bytes: u64) -> Part {
    let mut blocks = blocks();
    let last = blocks.range(ARRAYS..).next_back().map(|(number, _)| *number);
    let number = last.map_or(ARRAYS, |last| last + 1);
    add_array(&mut blocks, (device.ordinal, context), number * BLOCK, bytes)
}

fn add_array(blocks: &mut Blocks, owner: (i32, usize), at: u64, bytes: u64) -> Part {
    let block = block_of(blocks, Part(at), owner);
    block.count += 1;
    block.arrays.insert(at, bytes);
    block.used += bytes;
    Part(at)
}

/// Returns the block of a part. If there is none yet, it is the owner's.
fn block_of(blocks: &mut Blocks, part: Part, owner: (i32, usize)) -> &mut Block {
    let new = || Block { owner, count: 0, arrays: BTreeMap::new(), used: 0, is_exported: false };
    blocks.entry(part.block()).or_insert_with(new)
}

/// Notes the end of an allocation. Returns the bytes that the driver frees with it, and whether
/// something else may keep them.
pub(crate) fn leave(part: Part, is_exported: bool) -> (u64, bool) {
    let mut blocks = blocks();
    let Some(block) = blocks.get_mut(&part.block()) else { return (0, false) };
    block.count -= 1;
    block.is_exported |= is_exported;
    block.used -= block.arrays.remove(&part.0).unwrap_or(0); // linear memory isn't there
    let (is_over, is_exported) = (block.count == 0, block.is_exported);
    if is_over {
        blocks.remove(&part.block());
    }
    (if is_over { BLOCK } else { 0 }, is_exported)
}

impl Part {
    fn block(self) -> u64 {
        self.0 / BLOCK
    }
}

impl Block {
    /// Returns the first address with room between two arrays, or after the last one.
    fn room(&self, begin: u64, bytes: u64) -> Option<u64> {
        if self.used.saturating_add(bytes) > BLOCK {
            return None;
        }
        let mut free_from = begin;
        for (at, array) in &self.arrays {
            if at.saturating_sub(free_from) >= bytes {
                return Some(free_from);
            }
            free_from = free_from.max(at.saturating_add(*array));
        }
        ((begin + BLOCK).saturating_sub(free_from) >= bytes).then_some(free_from)
    }
}
