//! Memory of the device outside of the window that the program has been told of. No other address
//! may come into a call: the driver takes those of this process's host memory as well.

use std::collections::{BTreeMap, HashMap, HashSet};

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
pub(crate) struct Allocations {
    all: BTreeMap<u64, Allocation>,
    /// First addresses of graphs' memory, by the driver's numbers of captures that are open.
    captured: HashMap<u64, Vec<u64>>,
    /// As above, by the numbers of graphs and executable graphs.
    of_graphs: HashMap<u64, Vec<u64>>,
}

impl Allocations {
    /// Notes memory that the program has been told of.
    pub(crate) fn put(&mut self, at: u64, bytes: u64, owners: [u64; 2], kind: MemoryKind) {
        self.restore(at, Allocation { bytes, owners, kind });
    }

    /// Takes memory before it is freed: its address may be another one's as soon as the driver has
    /// freed it. A graph's stays.
    pub(crate) fn take(&mut self, at: u64) -> Option<Allocation> {
        let is_freed = self.all.get(&at).is_some_and(|place| place.kind != MemoryKind::OfGraph);
        if is_freed { self.all.remove(&at) } else { None }
    }

    /// Puts memory back that was not freed.
    pub(crate) fn restore(&mut self, at: u64, place: Allocation) {
        self.all.insert(at, place);
    }

    /// Notes that memory is a part of a capture's graph.
    pub(crate) fn capture(&mut self, number: u64, at: u64) {
        self.captured.entry(number).or_default().push(at);
    }

    /// A capture has ended, and this is its graph; zero: it has none.
    pub(crate) fn end_capture(&mut self, number: u64, graph: u64) {
        let memory = self.captured.remove(&number).filter(|_| graph != 0);
        self.of_graphs.extend(memory.map(|memory| (graph, memory)));
    }

    /// A graph, or an executable one, was made of a graph.
    pub(crate) fn copy_graph(&mut self, of: u64, graph: u64) {
        let memory = self.of_graphs.get(&of).cloned();
        self.of_graphs.extend(memory.map(|memory| (graph, memory)));
    }

    /// Forgets the memory of objects that have ended, and returns its first addresses. Memory of
    /// pools ends only where `are_pools_over`.
    pub(crate) fn end(&mut self, ended: &HashSet<u64>, are_pools_over: bool) -> Vec<u64> {
        self.of_graphs.retain(|graph, _| !ended.contains(graph));
        let mut gone = Vec::new();
        self.all.retain(|at, place| {
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
        self.all.keys().next_back().copied()
    }

    /// Returns whether memory begins here.
    pub(crate) fn begins(&self, at: u64) -> bool {
        self.all.contains_key(&at)
    }

    /// Returns the owners of the piece of memory that all of a range is in. `None`: there is none.
    /// Memory of a graph may have ended when no graph has it any more: `is_there` asks for a byte
    /// of it.
    pub(crate) fn owners(
        &self,
        at: u64,
        bytes: u64,
        is_there: impl Fn(u64) -> bool,
    ) -> Option<[u64; 2]> {
        let last = at.checked_add(bytes.saturating_sub(1))?;
        // Not the nearest one alone: a graph may have had a shorter one there, which it has freed.
        let found = self.all.range(..=at).rev().find(|(from, place)| {
            let (into, len) = (at - **from, place.bytes);
            let is_known = || place.kind != MemoryKind::OfGraph || self.is_of_graph(**from);
            into < len && bytes <= len - into && (is_known() || is_there(at) && is_there(last))
        });
        found.map(|(_, place)| place.owners)
    }

    /// Returns whether a capture or a graph has the memory that begins here.
    fn is_of_graph(&self, at: u64) -> bool {
        self.captured.values().chain(self.of_graphs.values()).any(|memory| memory.contains(&at))
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
            assert_eq!(places.owners(at, bytes, |_| true).is_some(), has, "{at} {bytes}");
        }
        assert!(places.take(1000).is_some() && places.take(1100).is_none());
        let has = |places: &Allocations, at| places.owners(at, 1, |_| true).is_some();
        assert!(!has(&places, 1000) && has(&places, 1100), "a graph makes it again");
        assert_eq!(places.end(&HashSet::from([16]), false), [1100]);
        assert!(!has(&places, 1100));
    }

    /// A graph gives its addresses again, in other pieces.
    #[test]
    fn range_may_reach_over_the_begin_of_a_former_piece() {
        let mut places = Allocations::default();
        places.put(1000, 100, [16, 0], MemoryKind::OfGraph);
        places.put(1040, 10, [32, 0], MemoryKind::OfGraph);
        let has = |at, bytes| places.owners(at, bytes, |_| true);
        assert_eq!([has(1042, 8), has(1042, 50)], [Some([32, 0]), Some([16, 0])]);
        assert_eq!([has(1042, 59), has(1100, 1)], [None; 2]);
    }

    /// The driver says whether it is there when no graph has it.
    #[test]
    fn memory_of_a_graph_is_known_as_long_as_a_graph_has_it() {
        let mut places = Allocations::default();
        places.put(1000, 100, [16, 0], MemoryKind::OfGraph);
        places.put(2000, 100, [16, 0], MemoryKind::OfGraph);
        places.capture(7, 1000);
        places.capture(8, 2000);
        let has = |places: &Allocations, at| places.owners(at, 100, |_| false).is_some();
        assert!(has(&places, 1000) && has(&places, 2000));
        places.end_capture(7, 32);
        places.end_capture(8, 0);
        assert!(has(&places, 1000) && !has(&places, 2000), "a capture that has failed");
        places.copy_graph(32, 48);
        places.copy_graph(64, 80);
        places.end(&HashSet::from([32, 80]), false);
        assert!(has(&places, 1000), "another graph has it");
        places.end(&HashSet::from([48]), false);
        assert!(!has(&places, 1000));
        let last = |at| at == 1000 || at == 1099;
        assert!(places.owners(1000, 100, last).is_some(), "it was launched, and not freed");
    }

    #[test]
    fn memory_ends_with_an_owner_and_pools_with_a_primary_one() {
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
