//! How much of a device's time a process uses, from what its threads see of its work.
//!
//! When work begins is known: it is launched. When it ends is seen by a thread that waited for it, at once, or by a look
//! at the marks behind it, some time later: then it ended somewhere since the look before, on average in the middle.
//!
//! While others with limits have work as well, the device turns between them, and how long this process's work was on its
//! way says little: who comes now and then waits for the others' turns each time. So what a launch takes is learnt while
//! nobody else has work, and launches are counted otherwise. Until something is learnt, all have equal parts.

use super::atomic::{AtomicU64, Ordering::Relaxed};

/// A stretch of work without others teaches what a launch takes if it ended, or lasted for so long.
const LONG: u64 = 200_000_000;

/// What a look shows of this process's work.
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

impl Seen {
    fn is_end(self) -> bool {
        matches!(self, Self::Ended | Self::EndedNow)
    }
}

/// What a look shows of others with limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// How many have work.
    pub working: u64,
    /// How often one of them has begun, since the books were new.
    pub begun: u64,
}

/// Up to when a process's work has been counted, and what its launches take.
#[derive(Debug)]
pub struct Usage {
    /// In nanoseconds; zero: there is no work.
    counted: AtomicU64,
    /// Launches since the last look.
    launches: AtomicU64,
    /// What the last look saw of others.
    working: AtomicU64,
    begun: AtomicU64,
    /// Nanoseconds and launches since others had work last.
    alone: AtomicU64,
    alone_launches: AtomicU64,
    /// Nanoseconds that a launch takes on average; zero: not known.
    each: AtomicU64,
    /// What launches beside others take and wasn't counted yet.
    owed: AtomicU64,
}

impl Usage {
    /// Of a process without work.
    #[allow(clippy::new_without_default)] // atomics of loom have none
    pub fn new() -> Self {
        let zero = || AtomicU64::new(0);
        let (counted, launches, working, begun) = (zero(), zero(), zero(), zero());
        let (alone, alone_launches, each, owed) = (zero(), zero(), zero(), zero());
        Self { counted, launches, working, begun, alone, alone_launches, each, owed }
    }

    /// Notes a launch. `now` is asked only if there was no work; returns whether there was none.
    #[inline]
    pub fn launched(&self, now: impl FnOnce() -> u64) -> bool {
        self.launches.fetch_add(1, Relaxed);
        self.counted.load(Relaxed) == 0
            && self.counted.compare_exchange(0, now().max(1), Relaxed, Relaxed).is_ok()
    }

    /// Notes what a look shows; returns for how many nanoseconds more the device has worked for this process. Of two
    /// threads that look at once, one counts.
    pub fn look(&self, now: u64, seen: Seen, others: Others) -> u64 {
        let before = self.counted.load(Relaxed);
        if before == 0 && seen.is_end() {
            return 0;
        }
        let after = if seen.is_end() { 0 } else { now.max(1) };
        let is_ours = self.counted.compare_exchange(before, after, Relaxed, Relaxed).is_ok();
        let was = Others {
            working: self.working.swap(others.working, Relaxed),
            begun: self.begun.swap(others.begun, Relaxed),
        };
        let passed = now.saturating_sub(before);
        let passed = if seen == Seen::Ended { passed / 2 } else { passed };
        if before == 0 || !is_ours || seen == Seen::Held {
            return 0;
        }
        let launches = self.launches.swap(0, Relaxed);
        match others.working == 0 && was.working == 0 && was.begun == others.begun {
            true => self.learn(passed, launches, seen.is_end()),
            false => self.estimate(passed, launches, seen.is_end(), others.working),
        }
    }

    /// Nobody else had work: the time is this process's.
    fn learn(&self, passed: u64, launches: u64, is_end: bool) -> u64 {
        self.owed.store(0, Relaxed);
        let time = self.alone.fetch_add(passed, Relaxed) + passed;
        let made = self.alone_launches.fetch_add(launches, Relaxed) + launches;
        if made > 0 && (is_end || time > LONG) {
            let (each, before) = (time / made, self.each.load(Relaxed));
            let each = if before == 0 { each } else { before - before / 4 + each / 4 };
            self.each.store(each.max(1), Relaxed);
            self.forget();
        }
        passed
    }

    /// Others had work as well.
    fn estimate(&self, passed: u64, launches: u64, is_end: bool, others: u64) -> u64 {
        self.forget();
        let each = self.each.load(Relaxed);
        if each == 0 {
            return passed / (1 + others);
        }
        let owed = self.owed.load(Relaxed).saturating_add(launches.saturating_mul(each));
        let ran = owed.min(passed);
        self.owed.store(if is_end { 0 } else { owed - ran }, Relaxed);
        ran
    }

    fn forget(&self) {
        self.alone.store(0, Relaxed);
        self.alone_launches.store(0, Relaxed);
    }
}
