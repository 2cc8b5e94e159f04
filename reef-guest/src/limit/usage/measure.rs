//! How much of a device's time a process uses, from what its threads see of its work.
//!
//! When work begins is known: it is launched. When it ends is seen by a thread that waited for it,
//! at once, or by a look at the marks behind it, some time later: then it ended somewhere since the
//! look before, on average in the middle. A gap between work and the next that the program asks for
//! counts as well if it is shorter than [`GAP`]: no other process could have used it, and without a
//! limit the program would have it too.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// About as long as a device takes to turn to another process, and that one to notice: 0.1 to 0.18
/// ms and less than 0.1 on an H200. Nanoseconds.
pub(in crate::limit) const GAP: u64 = 200_000;

/// What a look shows of this process's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkState {
    /// Work is on its way.
    Working,
    /// Work is on its way behind a closed gate.
    Held,
    /// All work has ended since the last look.
    Ended,
    /// All work has ended just now.
    EndedNow,
}

impl WorkState {
    fn is_end(self) -> bool {
        matches!(self, Self::Ended | Self::EndedNow)
    }
}

/// Up to when a process's work has been counted.
#[derive(Debug, Default)]
pub struct Usage {
    /// In nanoseconds; zero: there is no work.
    counted: AtomicU64,
    /// When work was last seen to end, if nothing more was asked for since; zero: not known.
    ended: AtomicU64,
}

impl Usage {
    /// Of a process without work.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a launch. `now` is asked only if there was no work; returns whether there was none.
    #[inline]
    pub fn launched(&self, now: impl FnOnce() -> u64) -> bool {
        self.counted.load(Relaxed) == 0 && self.begin(now().max(1))
    }

    fn begin(&self, now: u64) -> bool {
        let from = now - self.gap(now);
        self.counted.compare_exchange(0, from, Relaxed, Relaxed).is_ok()
    }

    /// Notes that a launch begins to wait; returns for how many nanoseconds before that counts as
    /// work.
    pub fn waits(&self, now: u64) -> u64 {
        self.gap(now)
    }

    fn gap(&self, now: u64) -> u64 {
        let ended = self.ended.swap(0, Relaxed);
        let gap = now.saturating_sub(ended);
        if ended > 0 && gap <= GAP { gap } else { 0 }
    }

    /// Notes what a look shows, while so many other processes with limits have work as well;
    /// returns for how many nanoseconds more the device has worked for this process. Of two threads
    /// that look at once, one counts.
    pub fn look(&self, now: u64, seen: WorkState, others: u64) -> u64 {
        let before = self.counted.load(Relaxed);
        if before == 0 && seen.is_end() {
            return 0;
        }
        let after = if seen.is_end() { 0 } else { now.max(1) };
        let is_ours = self.counted.compare_exchange(before, after, Relaxed, Relaxed).is_ok();
        if before == 0 || !is_ours || seen == WorkState::Held {
            return 0;
        }
        if seen == WorkState::EndedNow {
            self.ended.store(now.max(1), Relaxed);
        }
        let passed = now.saturating_sub(before);
        let passed = if seen == WorkState::Ended { passed / 2 } else { passed };
        passed / (1 + others) // what is at work at once has equal parts
    }
}
