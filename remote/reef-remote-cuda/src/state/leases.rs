//! Memory of the session's window that the worker has mapped, and how it is divided into
//! allocations.

use super::lock::lock;
use reef_remote_calls::{SLAB_LEN, WINDOW_LEN, has_range};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Bytes of the largest allocation that shares a slab with others, as the driver has them.
const MAX_SHARED_LEN: u64 = 1 << 20;
/// Alignment of allocations in a slab.
const UNIT: u64 = 512;
/// Bytes of the largest slab that is asked for before it is needed.
const MAX_WISHED_LEN: u64 = 32 << 20;

/// Memory that the worker has mapped.
#[derive(Debug)]
struct Slab {
    bytes: u64,
    context: u64,
    device: i32,
    /// One allocation has all of it.
    is_whole: bool,
    /// Number of its first allocation. Those of a slab that had its addresses before are lower.
    first: u64,
    /// Allocations in it, with those whose end is under way.
    live: usize,
    /// Lengths of free ranges, by their first addresses.
    free: BTreeMap<u64, u64>,
}

/// Allocation of the program's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) at: u64,
    /// Bytes that were asked for.
    pub(crate) bytes: u64,
    pub(crate) context: u64,
    pub(crate) device: i32,
    /// Number that no other allocation has had.
    pub(crate) number: u64,
    taken: u64,
    slab: u64,
}

/// Slabs and allocations of this process.
#[derive(Debug)]
pub(crate) struct Leases {
    slabs: BTreeMap<u64, Slab>,
    blocks: BTreeMap<u64, Block>,
    last: u64,
}

static ALL: Mutex<Leases> =
    Mutex::new(Leases { slabs: BTreeMap::new(), blocks: BTreeMap::new(), last: 0 });

/// Bytes to ask for: at least, and at best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) least: u64,
    pub(crate) wished: u64,
}

impl Leases {
    /// Allocates for a context. The error says what must be leased first.
    pub(crate) fn take(context: u64, bytes: u64) -> Result<u64, Demand> {
        lock(&ALL).allocate(context, bytes)
    }

    fn allocate(&mut self, context: u64, bytes: u64) -> Result<u64, Demand> {
        if bytes > MAX_SHARED_LEN {
            let least = bytes.checked_next_multiple_of(SLAB_LEN).unwrap_or(u64::MAX);
            return Err(Demand { least, wished: least });
        }
        let taken = bytes.next_multiple_of(UNIT);
        let shared = self.slabs.iter_mut();
        let shared = shared.filter(|(_, slab)| slab.context == context && !slab.is_whole);
        let mut leased = 0;
        let mut found = None;
        for (base, slab) in shared {
            leased += slab.bytes;
            let room = slab.free.iter().find(|(_, len)| **len >= taken);
            if let Some((at, len)) = room {
                let (at, len) = (*at, *len);
                slab.free.remove(&at);
                if len > taken {
                    slab.free.insert(at + taken, len - taken);
                }
                slab.live += 1;
                found = Some((at, *base, slab.device));
                break;
            }
        }
        let Some((at, slab, device)) = found else {
            let wished = leased.clamp(SLAB_LEN, MAX_WISHED_LEN);
            return Err(Demand { least: SLAB_LEN, wished });
        };
        self.note(Block { at, bytes, context, device, number: 0, taken, slab });
        Ok(at)
    }

    fn note(&mut self, block: Block) {
        self.last += 1;
        self.blocks.insert(block.at, Block { number: self.last, ..block });
    }

    /// Takes a lease of `leased` bytes, and allocates `bytes` in it.
    pub(crate) fn add(of: (u64, i32), base: u64, leased: u64, bytes: u64) -> u64 {
        lock(&ALL).add_slab(of, base, leased, bytes)
    }

    fn add_slab(&mut self, of: (u64, i32), base: u64, len: u64, bytes: u64) -> u64 {
        let (context, device) = of;
        let is_whole = bytes > MAX_SHARED_LEN;
        let taken = if is_whole { len } else { bytes.next_multiple_of(UNIT) };
        let mut free = BTreeMap::new();
        if taken < len {
            free.insert(base + taken, len - taken);
        }
        let first = self.last + 1;
        let slab = Slab { bytes: len, context, device, is_whole, first, live: 1, free };
        self.slabs.insert(base, slab);
        self.note(Block { at: base, bytes, context, device, number: 0, taken, slab: base });
        base
    }

    /// Begins the end of an allocation, and returns it with the slab that ends with it: that one is
    /// forgotten here, as the worker may lease its addresses again before it has answered. `None`:
    /// no allocation begins there.
    pub(crate) fn begin_free(at: u64) -> Option<(Block, Option<u64>)> {
        lock(&ALL).begin(at)
    }

    fn begin(&mut self, at: u64) -> Option<(Block, Option<u64>)> {
        let block = self.blocks.remove(&at)?;
        let is_spare = |(base, slab): (&u64, &Slab)| {
            let is_like = slab.context == block.context && !slab.is_whole;
            is_like && *base != block.slab && slab.live == 0
        };
        let has_spare = self.slabs.iter().any(is_spare);
        let slab = self.slabs.get(&block.slab)?;
        let ends = slab.live == 1 && (slab.is_whole || has_spare);
        if ends {
            self.slabs.remove(&block.slab);
        }
        Some((block, ends.then_some(block.slab)))
    }

    /// Ends an allocation whose slab goes on: the device has worked.
    pub(crate) fn end_free(block: &Block) {
        lock(&ALL).end(block);
    }

    fn end(&mut self, block: &Block) {
        let slab = self.slabs.get_mut(&block.slab);
        let Some(slab) = slab.filter(|slab| slab.first <= block.number) else { return };
        slab.live -= 1;
        let (mut from, mut len) = (block.at, block.taken);
        if let Some(behind) = slab.free.remove(&(from + len)) {
            len += behind;
        }
        let before = slab.free.range(..from).next_back().map(|(from, len)| (*from, *len));
        if let Some((before, its)) = before.filter(|(before, its)| before + its == from) {
            (from, len) = (before, len + its);
        }
        slab.free.insert(from, len);
    }

    /// Takes all slabs that have no allocation away, and returns their first addresses.
    pub(crate) fn take_spare() -> Vec<u64> {
        let mut all = lock(&ALL);
        let is_spare = |_: &u64, slab: &mut Slab| slab.live == 0;
        all.slabs.extract_if(.., is_spare).map(|(base, _)| base).collect()
    }

    /// Forgets what ends with a context.
    pub(crate) fn end_context(context: u64) {
        let mut all = lock(&ALL);
        all.slabs.retain(|_, slab| slab.context != context);
        all.blocks.retain(|_, block| block.context != context);
    }

    /// Returns the allocation that has an address.
    pub(crate) fn find(at: u64) -> Option<Block> {
        let all = lock(&ALL);
        let (_, block) = all.blocks.range(..=at).next_back()?;
        (at - block.at < block.bytes).then_some(*block)
    }

    /// Returns the bytes of a device that are leased and free.
    pub(crate) fn spare(device: i32) -> u64 {
        let all = lock(&ALL);
        let shared = all.slabs.values().filter(|slab| slab.device == device);
        shared.flat_map(|slab| slab.free.values()).sum()
    }
}

/// Addresses of the session's window; empty without one.
pub(crate) fn is_in(window: Option<u64>, at: u64) -> bool {
    window.is_some_and(|base| has_range(base, at, 1))
}

/// Keeps addresses free in this process, so that no memory of the host has one of the device's.
///
/// Returns whether they were free.
pub(crate) fn keep_window(base: u64) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let flags = flags | libc::MAP_FIXED_NOREPLACE;
    let (at, len) = (base as *mut libc::c_void, WINDOW_LEN as usize);
    // SAFETY: a new mapping, which takes the place of no other.
    let got = unsafe { libc::mmap(at, len, libc::PROT_NONE, flags, -1, 0) };
    if got != libc::MAP_FAILED && got != at {
        // SAFETY: a mapping of a moment ago, by a system that knows no such flag.
        unsafe { libc::munmap(got, len) };
    }
    got == at
}

/// Gives up what [`keep_window`] has kept.
pub(crate) fn release_window(base: u64) {
    // SAFETY: a mapping of ours that nothing has ever used.
    unsafe { libc::munmap(base as *mut libc::c_void, WINDOW_LEN as usize) };
}
