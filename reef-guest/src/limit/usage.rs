//! For how long a process has work on its device, from what its threads see of it.
//!
//! When work begins is known: it is launched. When it ends is seen by a thread that waited for it, at once, or by a look
//! at the marks behind it, some time later: then it ended somewhere since the look before, on average in the middle.

use super::atomic::{AtomicU64, Ordering::Relaxed};

/// What a look shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Work is on its way.
    Working,
    /// Work is on its way behind a closed gate.
    Held,
    /// All work has ended since the last look.
    Ended,
    /// All work has ended just now.
    EndedNow,
}

/// Up to when a process's work has been counted.
#[derive(Debug)]
pub struct Usage {
    /// In nanoseconds; zero: there is none.
    counted: AtomicU64,
}

impl Usage {
    /// Of a process without work.
    #[allow(clippy::new_without_default)] // atomics of loom have none
    pub fn new() -> Self {
        Self { counted: AtomicU64::new(0) }
    }

    /// Notes a launch. `now` is asked only if there was no work.
    #[inline]
    pub fn launched(&self, now: impl FnOnce() -> u64) {
        if self.counted.load(Relaxed) == 0 {
            let _ = self.counted.compare_exchange(0, now().max(1), Relaxed, Relaxed);
        }
    }

    /// Notes what a look shows; returns for how many nanoseconds more the device has worked. Of two threads that look at
    /// once, one counts.
    pub fn look(&self, now: u64, seen: Seen) -> u64 {
        let before = self.counted.load(Relaxed);
        let ended = matches!(seen, Seen::Ended | Seen::EndedNow);
        if before == 0 && ended {
            return 0;
        }
        let after = if ended { 0 } else { now.max(1) };
        let is_ours = self.counted.compare_exchange(before, after, Relaxed, Relaxed).is_ok();
        let passed = now.saturating_sub(before);
        match seen {
            _ if before == 0 || !is_ours => 0,
            Seen::Working | Seen::EndedNow => passed,
            Seen::Held => 0,
            Seen::Ended => passed / 2,
        }
    }
}
