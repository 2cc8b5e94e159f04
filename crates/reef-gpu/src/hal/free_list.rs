//! Memory that was given back and is used again.
//!
//! Calls that free memory (`hipFree`, `hipHostFree`, `cuMemFreeHost`) wait until all work on the
//! device has ended, and others wait for them. So what is freed stays here, by its size, until the
//! device is closed or there is no other memory. A place is as large as the least step that holds
//! what was asked; steps are at most 1/8 apart.

use std::collections::HashMap;

/// Minimum of bytes of a place.
const MIN_BYTES: usize = 256;

/// Places by their size: those in use, and those that are free.
#[derive(Debug, Default)]
pub struct FreeList {
    used: HashMap<u64, usize>,
    free: HashMap<usize, Vec<u64>>,
}

impl FreeList {
    /// A free place for `bytes` bytes.
    pub fn take(&mut self, bytes: usize) -> Option<u64> {
        let size = place(bytes);
        let found = self.free.get_mut(&size)?.pop()?;
        self.used.insert(found, size);
        Some(found)
    }

    /// A new place of `place(bytes)` bytes comes into use.
    pub fn add(&mut self, address: u64, bytes: usize) {
        self.used.insert(address, place(bytes));
    }

    /// A place isn't used any more.
    pub fn give_back(&mut self, address: u64) {
        if let Some(size) = self.used.remove(&address) {
            self.free.entry(size).or_default().push(address);
        }
    }

    /// All free places, which are then no longer ours.
    pub fn drain_free(&mut self) -> Vec<u64> {
        self.free.drain().flat_map(|(_, places)| places).collect()
    }
}

/// Bytes of the place for `bytes` bytes: in binary, at most four digits that aren't zero.
pub fn place(bytes: usize) -> usize {
    let bytes = bytes.max(MIN_BYTES);
    let step = 1 << (bytes.ilog2() - 3);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn returned_memory_is_reused_for_the_same_size() {
        let mut list = FreeList::default();
        assert_eq!(list.take(1000), None);
        list.add(4096, 1000);
        assert_eq!(list.take(1000), None, "it is in use");
        list.give_back(4096);
        assert_eq!(list.take(5000), None, "too small");
        assert_eq!(list.take(1001), Some(4096), "the place has room for it");
        assert_eq!(list.take(1001), None);
        list.give_back(4096);
        assert_eq!(list.drain_free(), [4096]);
        assert_eq!(list.take(1000), None, "it is no longer ours");
    }

    #[test]
    fn foreign_address_is_not_taken() {
        let mut list = FreeList::default();
        list.give_back(77);
        assert_eq!(list.drain_free(), [0u64; 0]);
    }

    proptest! {
        #[test]
        fn a_place_is_large_enough_and_wastes_an_eighth_at_most(bytes in MIN_BYTES..1usize << 40) {
            let size = place(bytes);
            prop_assert!(size >= bytes && size - bytes <= bytes / 8);
            prop_assert_eq!(place(size), size);
        }
    }
}
