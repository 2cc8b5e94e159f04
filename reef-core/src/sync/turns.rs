//! Turns of threads at something that one of them has at a time, so that another one sees a turn
//! that doesn't end.
//!
//! Drivers have no call with a time limit. A thread that hangs in one can't be stopped, and what it
//! has can't be taken from it; the others have to find out and go on without.

use std::sync::atomic::{AtomicU64, Ordering}; // samples: no order matters

/// Number of samples, each an interval after the last, after which a turn hangs. They are counted,
/// and not the time: a process that was stopped for an hour has not hung for one.
const MAX_SAMPLES: u32 = 10;

/// Odd while a thread has its turn. Written by that thread, which has the lock that comes with it.
#[derive(Debug, Default)]
pub(crate) struct Turns(AtomicU64);

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Begins a turn. The caller has the lock.
    #[inline]
    pub(crate) fn begin(&self) -> Turn<'_> {
        self.advance();
        Turn(self)
    }

    #[inline]
    fn advance(&self) {
        // Written by one thread at a time, so this loses no count.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Returns the number of the turn that lasts; `None` if there is none.
    pub(crate) fn current(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|number| number % 2 == 1)
    }
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.advance();
    }
}

/// Samples of turns, at an interval.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    turn: Option<u64>,
    /// Samples that found the same turn, without the first.
    same: u32,
}

impl Watch {
    /// Samples in a time after which a turn hangs.
    pub(crate) const SAMPLES: u32 = MAX_SAMPLES;

    /// Takes a sample; returns whether the turn hangs: it has lasted for ten of them since the one
    /// that found it.
    pub(crate) fn sample(&mut self, turns: &Turns) -> bool {
        self.count(turns) >= MAX_SAMPLES
    }

    /// Takes a sample; returns the number of samples for which the turn has lasted since the one
    /// that found it, 0 if there is none.
    pub(crate) fn count(&mut self, turns: &Turns) -> u32 {
        let turn = turns.current();
        self.same = if turn == self.turn { self.same.saturating_add(1) } else { 0 };
        self.turn = turn;
        if turn.is_some() { self.same } else { 0 }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn turn_hangs_after_ten_samples_of_the_same_one() {
        let (turns, mut watch) = (Turns::default(), Watch::default());
        let mut hangs = |count| (0..count).filter(|_| watch.sample(&turns)).count();
        assert_eq!(hangs(100), 0, "there is none");
        let first = turns.begin();
        assert_eq!(hangs(MAX_SAMPLES), 0);
        drop(first);
        let second = turns.begin();
        assert_eq!(hangs(MAX_SAMPLES), 0, "another one");
        assert_eq!(hangs(2), 2);
        drop(second);
        assert_eq!(hangs(100), 0);
    }
}
