//! Free memory of a pool, as far as it is known. An allocation that fits in one piece of it takes
//! no more of the device.
//!
//! Memory that a stream frees is there for its own next allocation. Other streams get it once it is
//! known that this stream has reached the free.

use crate::limit::sizes::round_up;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Unit of allocations in pools, in bytes.
const UNIT: u64 = 512;
/// Unit in which the driver allocates memory for pools, and gives it back, in bytes.
pub(crate) const POOL_UNIT: u64 = 32 << 20;

/// Stream that frees or allocates: its context, and a number that no other stream of it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StreamKey(pub(crate) usize, pub(crate) u64);

impl StreamKey {
    /// Key of no stream.
    pub(crate) const NONE: Self = Self(0, u64::MAX);
}

/// Piece that a stream has freed and, as far as is known, not reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) stream: StreamKey,
    /// Grows with each free of the process.
    pub(crate) number: u64,
    from: u64,
    to: u64,
}

impl Freed {
    pub(crate) fn new(stream: StreamKey, number: u64, at: u64, bytes: u64) -> Self {
        Self { stream, number, from: at, to: at.saturating_add(bytes) }
    }

    /// Returns whether an address is in it.
    pub(crate) fn has(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Holes {
    /// Pieces for any stream: their beginnings and ends. No two touch.
    free: BTreeMap<u64, u64>,
    freed: Vec<Freed>,
    /// Beginnings of the units that the driver has allocated, and may have given back.
    units: BTreeSet<u64>,
}

/// Returns the bytes that an allocation takes of its pool.
pub(crate) fn granted(bytes: u64) -> u64 {
    round_up(bytes, UNIT)
}

impl Holes {
    /// Returns the bytes that the pool may take more of its device for a stream's allocation.
    pub(crate) fn needed(&self, bytes: u64, stream: StreamKey) -> u64 {
        let fits = |from: u64, to: u64| to - from >= granted(bytes);
        let is_own = |freed: &&Freed| freed.stream == stream;
        let has_piece = self.free.iter().any(|(from, to)| fits(*from, *to))
            || self.freed.iter().filter(is_own).any(|freed| fits(freed.from, freed.to));
        if has_piece { 0 } else { round_up(bytes, POOL_UNIT) }
    }

    /// Adds units that begin with an allocation that was made for them. What of them is not that
    /// allocation's is free, up to `end`.
    pub(crate) fn grow(&mut self, at: u64, bytes: u64, end: u64) {
        let end = end.min(at.saturating_add(bytes));
        let is_former = |unit: &u64| *unit < end && unit + POOL_UNIT > at;
        self.units.retain(|unit| !is_former(unit)); // given back, and allocated again
        self.units.extend((at..end).step_by(POOL_UNIT as usize));
        self.add(at, end - at);
    }

    /// Removes the bytes of an allocation that was made there.
    pub(crate) fn fill(&mut self, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        let outside = |from: u64, to: u64| {
            [(from, to.min(at)), (from.max(end), to)].into_iter().filter(|(from, to)| from < to)
        };
        let touched = self.free.range(..end).rev().take_while(|(_, to)| **to > at);
        let touched: Vec<_> = touched.map(|(from, to)| (*from, *to)).collect();
        for (from, to) in touched {
            self.free.remove(&from);
            self.free.extend(outside(from, to));
        }
        let before = std::mem::take(&mut self.freed);
        self.freed = before
            .into_iter()
            .flat_map(|freed| {
                outside(freed.from, freed.to).map(move |(from, to)| Freed { from, to, ..freed })
            })
            .collect();
    }

    /// Adds a piece for any stream.
    pub(crate) fn add(&mut self, at: u64, bytes: u64) {
        let (mut from, mut to) = (at, at.saturating_add(bytes));
        self.fill(at, bytes); // nothing is known twice
        if let Some((&before, _)) =
            self.free.range(..from).next_back().filter(|(_, end)| **end == from)
        {
            self.free.remove(&before);
            from = before;
        }
        if let Some(after) = self.free.remove(&to) {
            to = after;
        }
        if from < to {
            self.free.insert(from, to);
        }
    }

    /// Adds a piece that a stream has freed.
    pub(crate) fn add_in(&mut self, freed: Freed) {
        self.freed.push(freed);
    }

    /// Gives the pieces of a stream that is about to end to a key of no stream.
    pub(crate) fn end_stream(&mut self, stream: StreamKey, ended: StreamKey) {
        let its = self.freed.iter_mut().filter(|freed| freed.stream == stream);
        its.for_each(|freed| freed.stream = ended);
    }

    /// Removes what a free was noted with that the driver refused.
    pub(crate) fn take_back(&mut self, number: u64) {
        self.freed.retain(|freed| freed.number != number);
    }

    /// Returns the pieces that streams have freed.
    pub(crate) fn freed(&self) -> &[Freed] {
        &self.freed
    }

    /// Returns the bytes of these pieces.
    pub(crate) fn freed_bytes(&self) -> u64 {
        self.freed.iter().map(|freed| freed.to - freed.from).sum()
    }

    /// Notes that streams have reached some frees.
    pub(crate) fn reached(&mut self, is_reached: impl Fn(&Freed) -> bool) {
        let over: Vec<_> = self.freed.extract_if(.., |freed| is_reached(freed)).collect();
        over.into_iter().for_each(|Freed { from, to, .. }| self.add(from, to - from));
    }

    /// Notes that the driver has given back units: any of those in which no allocation is live.
    pub(crate) fn shrink(&mut self, is_live: impl Fn(Range<u64>) -> bool) {
        let units = self.units.iter().copied();
        let gone: Vec<_> = units.filter(|unit| !is_live(*unit..unit + POOL_UNIT)).collect();
        gone.into_iter().for_each(|unit| self.fill(unit, POOL_UNIT));
    }

    /// Forgets all pieces for any stream, after one was not used as was expected.
    pub(crate) fn forget(&mut self) {
        self.free.clear();
        self.freed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: StreamKey = StreamKey(1, 1);
    const TWO: StreamKey = StreamKey(1, 2);

    fn fits(holes: &Holes, bytes: u64, stream: StreamKey) -> bool {
        holes.needed(bytes, stream) == 0
    }

    #[test]
    fn freed_piece_is_its_streams_until_that_reaches_the_free() {
        let mut holes = Holes::default();
        holes.add_in(Freed::new(ONE, 7, 4096, 1024));
        assert_eq!([fits(&holes, 1024, ONE), fits(&holes, 1024, TWO)], [true, false]);
        holes.fill(4096, 512); // used again in its stream
        assert_eq!([fits(&holes, 512, ONE), fits(&holes, 1024, ONE)], [true, false]);
        assert_eq!(holes.freed_bytes(), 512);
        holes.reached(|freed| freed.number == 7);
        assert_eq!(holes.freed_bytes(), 0);
        assert_eq!([fits(&holes, 512, TWO), fits(&holes, 1024, TWO)], [true, false]);
    }

    #[test]
    fn piece_of_ended_stream_is_not_that_of_the_next_one() {
        let (mut holes, ended) = (Holes::default(), StreamKey(1, u64::MAX - 8));
        holes.add_in(Freed::new(ONE, 7, 4096, 1024));
        holes.end_stream(ONE, ended);
        assert!(!fits(&holes, 512, ONE)); // one that got its key
        holes.reached(|freed| freed.stream == ended);
        assert!(fits(&holes, 512, ONE));
    }

    #[test]
    fn pieces_that_touch_are_one() {
        let mut holes = Holes::default();
        holes.add(0, 512);
        holes.add(1024, 512);
        assert!(!fits(&holes, 1024, ONE));
        holes.add(512, 512);
        assert!(fits(&holes, 1536, ONE));
        holes.fill(512, 512);
        assert_eq!(holes.free.into_iter().collect::<Vec<_>>(), [(0, 512), (1024, 1536)]);
    }

    #[test]
    fn unit_without_live_allocation_is_unknown_after_shrinking() {
        let (mut holes, at) = (Holes::default(), 1 << 40);
        holes.grow(at, 3 * POOL_UNIT, u64::MAX);
        holes.fill(at, 512);
        holes.add_in(Freed::new(TWO, 7, at + 2 * POOL_UNIT, 512));
        assert!(fits(&holes, POOL_UNIT, ONE));
        holes.shrink(|unit| unit.contains(&at));
        let left: Vec<_> = holes.free.clone().into_iter().collect();
        assert_eq!((left, holes.freed.len()), (vec![(at + 512, at + POOL_UNIT)], 0));
        assert_eq!(holes.needed(POOL_UNIT, ONE), POOL_UNIT);
    }
}
