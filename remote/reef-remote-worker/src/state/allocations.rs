//! Memory of the device outside of the window that the program has been told of. No other address
//! may come into a call: the driver takes those of this process's host memory as well.

use std::collections::{BTreeMap, HashSet};

/// Memory at an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocation {
    bytes: u64,
    /// Numbers of the objects with which it ends: a context, a module or a library. 0: none.
    owners: [u64; 2],
    kind: MemoryKind,
}

/// Memory by what it ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// A free, or any of its owners.
    Linear,
    /// As above, but for a context that was created: a pool is its device's.
    Pooled,
    /// As linear memory, but for a free: launches of its graph make it again.
    OfGraph,
}

/// Memory by its first addresses.
#[derive(Debug, Default)]
pub(crate) struct Allocations(BTreeMap<u64, Allocation>);

impl Allocations {
    /// Notes memory that the program has been told of.
    pub(crate) fn put(&mut self, at: u64, bytes: u64, owners: [u64; 2], kind: MemoryKind) {
        self.restore(at, Allocation { bytes, owners, kind });
    }

    /// Takes memory before it is freed: its address may be another one's as soon as the driver has
    /// freed it. A graph's stays.
    pub(crate) fn take(&mut self, at: u64) -> Option<Allocation> {
        let is_freed = self.0.get(&at).is_some_and(|place| place.kind != MemoryKind::OfGraph);
        if is_freed { self.0.remove(&at) } else { None }
    }

    /// Puts memory back that was not freed.
    pub(crate) fn restore(&mut self, at: u64, place: Allocation) {
        self.0.insert(at, place);
    }

    /// Forgets the memory of objects that have ended, and returns its first addresses. Memory of
    /// pools ends only where `are_pools_over`.
    pub(crate) fn end(&mut self, ended: &HashSet<u64>, are_pools_over: bool) -> Vec<u64> {
        let mut gone = Vec::new();
        self.0.retain(|at, place| {
            let is_its = place.owners.iter().any(|owner| ended.contains(owner));
            let is_over = is_its && (are_pools_over || place.kind != MemoryKind::Pooled);
            if is_over {
                gone.push(*at);
            }
            !is_over
        });
        gone
    }

    /// Returns the highest first address.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn last(&self) -> Option<u64> {
        self.0.keys().next_back().copied()
    }

    /// Returns whether memory begins here.
    pub(crate) fn begins(&self, at: u64) -> bool {
        self.0.contains_key(&at)
    }

    /// Returns whether all of a range is in one piece of memory.
    pub(crate) fn has(&self, at: u64, bytes: u64) -> bool {
        let before = self.0.range(..=at).next_back();
        let fits = |(from, place): (&u64, &Allocation)| {
            let (into, len) = (at - from, place.bytes);
            into < len && bytes <= len - into
        };
        before.is_some_and(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_must_lie_in_one_piece() {
        let mut places = Allocations::default();
        places.put(1000, 100, [16, 0], MemoryKind::Linear);
        places.put(1100, 100, [16, 0], MemoryKind::OfGraph);
        for (at, bytes, has) in [
            (1000, 100, true),
            (1099, 1, true),
            (1050, 51, false),
            (999, 1, false),
            (1200, 0, false),
            (1199, u64::MAX, false),
        ] {
            assert_eq!(places.has(at, bytes), has, "{at} {bytes}");
        }
        assert!(places.take(1000).is_some() && places.take(1100).is_none());
        assert!(!places.has(1000, 1) && places.has(1100, 1), "a graph makes it again");
        assert_eq!(places.end(&HashSet::from([16]), false), [1100]);
        assert!(!places.has(1100, 1));
    }

    #[test]
    fn memory_ends_with_any_owner_and_that_of_pools_with_a_primary_one() {
        let mut places = Allocations::default();
        places.put(1000, 100, [32, 16], MemoryKind::Linear);
        places.put(2000, 100, [16, 0], MemoryKind::Pooled);
        places.put(3000, 100, [48, 0], MemoryKind::Linear);
        assert_eq!(places.end(&HashSet::from([16, 64]), false), [1000]);
        assert!(places.begins(2000) && places.begins(3000));
        assert_eq!(places.end(&HashSet::from([16]), true), [2000]);
        assert!(places.end(&HashSet::from([64]), true).is_empty());
    }
}
