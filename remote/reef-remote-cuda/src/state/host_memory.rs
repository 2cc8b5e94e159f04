//! Host memory that the program takes for pinned. It is ordinary memory of this process.

use super::lock::lock;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Alignment of what is allocated here.
const PAGE: usize = 4096;

/// Ranges by their beginnings.
#[derive(Debug)]
pub(crate) struct HostMemory {
    /// Bytes, flags, and whether they are allocated here.
    ranges: BTreeMap<usize, (usize, u32, bool)>,
}

static ALL: Mutex<HostMemory> = Mutex::new(HostMemory { ranges: BTreeMap::new() });

impl HostMemory {
    /// Allocates memory. `None`: there is not so much.
    pub(crate) fn alloc(bytes: usize, flags: u32) -> Option<usize> {
        let layout = Layout::from_size_align(bytes.max(1), PAGE).ok()?;
        // SAFETY: at least one byte.
        let at = unsafe { alloc_zeroed(layout) } as usize;
        if at == 0 {
            return None;
        }
        lock(&ALL).ranges.insert(at, (bytes, flags, true));
        Some(at)
    }

    /// Frees what was allocated here. Returns false for anything else.
    pub(crate) fn free(at: usize) -> bool {
        let mut all = lock(&ALL);
        match all.ranges.get(&at) {
            Some(&(bytes, _, true)) => {
                all.ranges.remove(&at);
                let layout = Layout::from_size_align(bytes.max(1), PAGE).expect("as it was made");
                // SAFETY: allocated with this layout, and no longer listed.
                unsafe { dealloc(at as *mut u8, layout) };
                true
            }
            _ => false,
        }
    }

    /// Notes memory of the program's. Returns false if some of it is known.
    pub(crate) fn register(at: usize, bytes: usize, flags: u32) -> bool {
        let mut all = lock(&ALL);
        let end = at.saturating_add(bytes);
        let before = all.ranges.range(..end).next_back();
        if before.is_some_and(|(begin, (len, ..))| begin + len > at) {
            return false;
        }
        all.ranges.insert(at, (bytes, flags, false));
        true
    }

    /// Forgets memory of the program's. Returns false if it is not known.
    pub(crate) fn unregister(at: usize) -> bool {
        let mut all = lock(&ALL);
        let is_known = all.ranges.get(&at).is_some_and(|(.., is_ours)| !is_ours);
        is_known && all.ranges.remove(&at).is_some()
    }

    /// Returns the flags of the range that has this address.
    pub(crate) fn flags(at: usize) -> Option<u32> {
        let all = lock(&ALL);
        let (begin, (bytes, flags, _)) = all.ranges.range(..=at).next_back()?;
        (at - begin < (*bytes).max(1)).then_some(*flags)
    }
}
