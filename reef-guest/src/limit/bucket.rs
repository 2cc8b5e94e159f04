//! Device time as a bucket of nanoseconds: filled by the clock at a job's part of it, emptied by what ran.
//!
//! Work may begin while the bucket isn't below empty. How long it takes is known only afterwards, so the bucket may go
//! below empty, and then nothing begins until the clock has filled it again.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The bucket holds so much: what a job may use at once after a pause.
pub(super) const BURST: i64 = 20_000_000;
/// The most that a look counts: a longer time between two looks is a clock that jumped, or a process that was stopped.
const LONGEST: u64 = 100_000_000;
const MILLION: u64 = 1_000_000;

/// In the books, for all processes of a job.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Bucket {
    balance: AtomicI64,
    /// When it was last filled, by `CLOCK_MONOTONIC`; zero: never.
    filled: AtomicU64,
}

impl Bucket {
    pub(super) fn clear(&self) {
        self.balance.store(0, Relaxed);
        self.filled.store(0, Relaxed);
    }

    /// Fills it for the time since it was last filled. A clock that goes back fills nothing.
    fn fill(&self, now: u64, part: u64) {
        let before = self.filled.load(Relaxed);
        if now <= before && before - now <= LONGEST {
            return;
        }
        if self.filled.compare_exchange(before, now, Relaxed, Relaxed).is_err() {
            return; // another process does it
        }
        let passed = if before == 0 { 0 } else { now.saturating_sub(before) };
        let more = u128::from(passed) * u128::from(part) / u128::from(MILLION);
        let more = i64::try_from(more).unwrap_or(i64::MAX);
        let add = |balance: i64| Some(balance.saturating_add(more).min(BURST));
        let _ = self.balance.fetch_update(Relaxed, Relaxed, add);
    }

    /// How long it takes until work may begin, at this part of the time in parts per million. Zero: it may.
    pub(super) fn wait(&self, now: u64, part: u64) -> Duration {
        self.fill(now, part);
        let missing = self.balance.load(Relaxed).min(0).unsigned_abs();
        Duration::from_nanos(missing.saturating_mul(MILLION) / part.max(1))
    }

    /// Takes out what ran.
    pub(super) fn take(&self, nanos: u64) {
        let nanos = nanos.min(LONGEST) as i64;
        let less = |balance: i64| Some(balance.saturating_sub(nanos));
        let _ = self.balance.fetch_update(Relaxed, Relaxed, less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_was_used_too_much_is_waited_for() {
        let bucket = Bucket::default();
        assert_eq!(bucket.wait(SECOND, 100_000), Duration::ZERO, "new");
        bucket.take(30_000_000);
        assert_eq!(bucket.wait(SECOND, 100_000), Duration::from_millis(300));
        assert_eq!(bucket.wait(SECOND + 200_000_000, 100_000), Duration::from_millis(100));
        assert_eq!(bucket.wait(9 * SECOND, 100_000), Duration::ZERO);
        bucket.take(BURST as u64 + 1_000_000); // a pause saves a burst, and no more
        assert_eq!(bucket.wait(9 * SECOND, 100_000), Duration::from_millis(10));
    }

    #[test]
    fn a_clock_that_jumps_gives_no_more_than_a_burst_and_takes_no_more_than_a_look() {
        let bucket = Bucket::default();
        bucket.wait(SECOND, 500_000);
        bucket.wait(u64::MAX, 500_000);
        bucket.take(u64::MAX);
        assert_eq!(bucket.wait(u64::MAX, 500_000), Duration::from_millis(160));
        // Far back: the time that it shows now is the one that counts.
        assert_eq!(bucket.wait(SECOND, 500_000), Duration::from_millis(160));
        assert_eq!(bucket.wait(SECOND + 160_000_000, 500_000), Duration::ZERO);
    }
}
