//! Whether a queue is held, and whether what it had on the device has been taken back.
//!
//! Two numbers with one writer each, so that nothing is noted of one preemption that belongs to another:
//! a hold has a number, and taking back notes the number of the hold that it was done for. Whoever takes back reads
//! the number once, and does nothing without one: a queue that was released may launch again.
//!
//! `reef-core/loom` has a model of this with a worker, a group and a submitter.

use crate::sync::primitives::{AtomicU64, Ordering};

/// How far taking back came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reclaim {
    /// The queue is quiesced.
    Done,
    /// The device isn't done, and says so when it is.
    Pending,
    /// The queue is held no more. The device need not have anything that it could report.
    Released,
}

/// Counts holds and releases: odd while the queue is held. Written by the group.
#[derive(Debug, Default)]
pub(crate) struct Hold(AtomicU64);

impl Hold {
    /// Nothing is launched from now on.
    pub(crate) fn begin(&self) {
        if !self.is_held() {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Launches go on.
    pub(crate) fn end(&self) {
        if self.is_held() {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.current().is_some()
    }

    /// The number of the hold that lasts now.
    pub(crate) fn current(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|number| number % 2 == 1)
    }
}

/// For which hold the device's work was taken back, and how much. Written under the launcher's lock.
#[derive(Debug, Default)]
pub(crate) struct Quiesced {
    hold: AtomicU64,
    rerun: AtomicU64,
}

impl Quiesced {
    /// Takes back by `drain` what the device has of a held queue, once in each hold. `drain` says how many commands
    /// will be launched again, or `None` while the device isn't done. The caller has the launcher's lock.
    ///
    /// The hold is looked at once: it begins before the queue is evicted and lasts until it is noted, and nothing is
    /// launched meanwhile. Whoever is so late that the queue has been released leaves the device alone, which has
    /// nothing to say then.
    ///
    /// # Errors
    ///
    /// Those of `drain`.
    pub(crate) fn reclaim<E>(
        &self,
        hold: &Hold,
        drain: impl FnOnce() -> Result<Option<u64>, E>,
    ) -> Result<Reclaim, E> {
        let Some(hold) = hold.current() else { return Ok(Reclaim::Released) };
        if self.is_noted_for(hold) {
            return Ok(Reclaim::Done); // by another thread that had the launcher before
        }
        let Some(rerun) = drain()? else { return Ok(Reclaim::Pending) };
        self.note(hold, rerun); // still locked: nothing was launched since the look
        Ok(Reclaim::Done)
    }

    /// The device has nothing of the queue for as long as the hold `number` lasts; `rerun` commands
    /// will be launched again.
    pub(crate) fn note(&self, number: u64, rerun: u64) {
        self.rerun.fetch_add(rerun, Ordering::Relaxed);
        self.hold.store(number, Ordering::Release);
    }

    /// Whether it was noted for the hold that lasts now.
    pub(crate) fn is_noted(&self, hold: &Hold) -> bool {
        hold.current().is_some_and(|number| self.is_noted_for(number))
    }

    /// Whether the last hold that it was noted for is this one.
    pub(crate) fn is_noted_for(&self, number: u64) -> bool {
        self.hold.load(Ordering::Acquire) == number
    }

    /// Commands that are launched again, of all holds together.
    pub(crate) fn rerun(&self) -> u64 {
        self.rerun.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_back_for_one_hold_says_nothing_of_the_next() {
        let (hold, quiesced) = (Hold::default(), Quiesced::default());
        assert!(!quiesced.is_noted(&hold), "not even held");
        hold.begin();
        let first = hold.current().unwrap();
        hold.end();
        hold.begin();
        quiesced.note(first, 2); // by a worker that was late
        assert!(!quiesced.is_noted(&hold));
        quiesced.note(hold.current().unwrap(), 1);
        assert!(quiesced.is_noted(&hold));
        hold.end();
        assert!(!quiesced.is_noted(&hold));
        assert_eq!(quiesced.rerun(), 3);
    }

    #[test]
    fn holding_twice_is_holding_once() {
        let hold = Hold::default();
        hold.begin();
        hold.begin();
        assert!(hold.is_held());
        hold.end();
        assert!(!hold.is_held());
        hold.end();
        assert!(!hold.is_held());
    }
}
