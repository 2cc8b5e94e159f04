//! Blocks of the device that small allocations of a context share, and small arrays. A block is
//! free again when its last allocation has ended.

use super::device_memory::take;
use std::collections::BTreeMap;

/// Bytes of a block. It begins at a multiple of them.
pub(crate) const BLOCK: usize = 2 << 20;
/// Most bytes of an allocation that shares a block.
pub(crate) const MAX_SHARED: usize = 1 << 20;

/// Number of a context, and whether it is for arrays.
type Owner = (u64, bool);

#[derive(Debug)]
struct Block {
    owner: Owner,
    begin: usize,
    /// Bytes of its allocations by their addresses.
    parts: BTreeMap<usize, usize>,
    /// Bytes from its beginning that were ever used: those behind them are zero.
    touched: usize,
}

#[derive(Debug, Default)]
pub(crate) struct SharedBlocks {
    /// The oldest one first.
    blocks: Vec<Block>,
    /// Addresses of blocks that the device has back, and that new blocks get.
    pub(super) spare: Vec<usize>,
}

impl SharedBlocks {
    /// Allocates zeros in the first hole that is large enough, or in a new block. None: there is no
    /// memory left.
    pub(crate) fn allocate(&mut self, owner: Owner, bytes: usize) -> Option<usize> {
        let its = |block: &Block| (block.owner == owner).then(|| block.hole(bytes)).flatten();
        let found = self.blocks.iter().position(|block| its(block).is_some());
        let block = match found {
            Some(found) => self.blocks.get_mut(found)?,
            None => self.begin(owner)?,
        };
        let at = block.hole(bytes)?;
        let offset = at - block.begin;
        let used = block.touched.saturating_sub(offset).min(bytes);
        block.touched = block.touched.max(offset + bytes);
        block.parts.insert(at, bytes);
        // SAFETY: a part of a block, whose memory stays for good. No other allocation has it.
        unsafe { std::ptr::write_bytes(at as *mut u8, 0, used) };
        Some(at)
    }

    /// Takes a block of the device.
    fn begin(&mut self, owner: Owner) -> Option<&mut Block> {
        if !take(BLOCK as u64) {
            return None;
        }
        let (begin, touched) = match self.spare.pop() {
            Some(begin) => (begin, BLOCK),
            None => (new_block(), 0),
        };
        self.blocks.push(Block { owner, begin, parts: BTreeMap::new(), touched });
        self.blocks.last_mut()
    }

    /// Ends an allocation. Returns the bytes of the device that end with it. None: it shares no
    /// block.
    pub(crate) fn end(&mut self, at: usize) -> Option<u64> {
        let place = self.blocks.iter().position(|block| block.parts.contains_key(&at))?;
        let block = self.blocks.get_mut(place)?;
        block.parts.remove(&at);
        if !block.parts.is_empty() {
            return Some(0);
        }
        self.spare.push(block.begin);
        self.blocks.remove(place);
        Some(BLOCK as u64)
    }
}

impl Block {
    /// Returns the first address with this number of free bytes behind it.
    fn hole(&self, bytes: usize) -> Option<usize> {
        let mut free_from = self.begin;
        for (at, part) in &self.parts {
            if at - free_from >= bytes {
                return Some(free_from);
            }
            free_from = at + part;
        }
        (self.begin + BLOCK - free_from >= bytes).then_some(free_from)
    }
}

/// Memory of the host for a block, which stays.
fn new_block() -> usize {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory, which takes the place of no other.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 2 * BLOCK, access, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED, "memory for a block");
    (at as usize).next_multiple_of(BLOCK)
}
