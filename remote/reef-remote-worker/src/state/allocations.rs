//! Memory of the device outside of the window that the program has been told of. No other address
//! may come into a call: the driver takes those of this process's host memory as well.

use std::collections::BTreeMap;

/// Memory at an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocation {
    bytes: u64,
    /// Number of the context, module or library with which it ends.
    owner: u64,
    /// It is a graph's, whose launches make it again.
    is_of_graph: bool,
}

/// Memory by its first addresses.
#[derive(Debug, Default)]
pub(crate) struct Allocations(BTreeMap<u64, Allocation>);

impl Allocations {
    /// Notes memory that the program has been told of.
    pub(crate) fn put(&mut self, at: u64, bytes: u64, owner: u64, is_of_graph: bool) {
        self.restore(at, Allocation { bytes, owner, is_of_graph });
    }

    /// Takes memory before it is freed: its address may be another one's as soon as the driver has
    /// freed it. A graph's stays.
    pub(crate) fn take(&mut self, at: u64) -> Option<Allocation> {
        let is_freed = self.0.get(&at).is_some_and(|place| !place.is_of_graph);
        if is_freed { self.0.remove(&at) } else { None }
    }

    /// Puts memory back that was not freed.
    pub(crate) fn restore(&mut self, at: u64, place: Allocation) {
        self.0.insert(at, place);
    }

    /// Forgets the memory of a context, a module or a library that has ended.
    pub(crate) fn end(&mut self, owner: u64) {
        self.0.retain(|_, place| place.owner != owner);
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
        places.put(1000, 100, 16, false);
        places.put(1100, 100, 16, true);
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
        places.end(16);
        assert!(!places.has(1100, 1));
    }
}
