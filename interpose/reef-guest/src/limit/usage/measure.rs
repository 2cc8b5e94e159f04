//! Measurement of the device time that a process uses, by polls of its work.
//!
//! Work begins when it is launched. A thread that waited for it sees its end at once. A poll of the
//! marks after it sees the end later: then the work ended between two polls, on average in the
//! middle. A gap between work and the program's next work counts too if it is shorter than [`GAP`]:
//! no other process could have used it, and without a limit the program would have it too.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// About the time in which a device switches to another process and that one notices: 0.1 to 0.18
/// ms and less than 0.1 ms on an H200. Nanoseconds.
pub(in crate::limit) const GAP: u64 = 200_000;

/// State of this process's work at a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkState {
    /// Work is on its way.
    Working,
    /// Work is on its way behind a closed gate.
    Held,
    /// All work has ended since the last poll.
    Ended,
    /// All work has ended just now.
    EndedNow,
}

impl WorkState {
    fn is_end(self) -> bool {
        matches!(self, Self::Ended | Self::EndedNow)
    }
}

/// Time up to which a process's work has been counted.
#[derive(Debug, Default)]
pub struct Usage {
    /// Nanoseconds; zero: the process has no work.
    counted: AtomicU64,
    /// Time at which work was last seen to end, if no work was requested since; zero: unknown.
    ended: AtomicU64,
}

impl Usage {
    /// Creates the usage of a process without work.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a launch. Returns whether the process had no work before; only then it calls `now`.
    #[inline]
    pub fn launched(&self, now: impl FnOnce() -> u64) -> bool {
        self.counted.load(Relaxed) == 0 && self.begin(now().max(1))
    }

    fn begin(&self, now: u64) -> bool {
        let from = now - self.gap(now);
        self.counted.compare_exchange(0, from, Relaxed, Relaxed).is_ok()
    }

    /// Notes that a launch begins to wait. Returns the nanoseconds before that which count as work.
    pub fn waits(&self, now: u64) -> u64 {
        self.gap(now)
    }

    fn gap(&self, now: u64) -> u64 {
        let ended = self.ended.swap(0, Relaxed);
        let gap = now.saturating_sub(ended);
        if ended > 0 && gap <= GAP { gap } else { 0 }
    }

    /// Notes the state at a poll, while `others` processes with limits have work too. Returns the
    /// nanoseconds that the device has worked for this process since the last poll. Of two threads
    /// that poll at once, one counts.
    pub fn poll(&self, now: u64, seen: WorkState, others: u64) -> u64 {
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
