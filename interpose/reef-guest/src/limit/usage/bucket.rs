//! Bucket of device time in nanoseconds: filled by the clock at a job's part of the time, emptied
//! by its work.
//!
//! Work may begin while the balance isn't negative. The time that it takes is known only
//! afterwards, so the balance may become negative. Then no work begins until the clock has filled
//! the bucket again. A pause saves at most a burst. Time for which a job waits for the turns of
//! other jobs is saved up to a higher bound.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Capacity after a pause: the time that a job may use at once. Nanoseconds.
const BURST: i64 = 20_000_000;
/// The job's part of this time is the capacity while it waits for other jobs, and the maximum debt
/// for time that no other job wanted. Nanoseconds.
const MAX_SAVED: u64 = 500_000_000;
/// The job's part of this time is the maximum debt that outlives its last process. Nanoseconds.
const MAX_KEPT: u64 = 60_000_000_000;
/// Maximum time that one poll counts: a longer time between two polls is a clock that jumped, or a
/// process that was stopped. Nanoseconds.
const MAX_STEP: u64 = 100_000_000;
const MILLION: u64 = 1_000_000;

/// Bucket of a job in the accounts file, written by all of its processes.
#[derive(Debug, Default)]
#[repr(C)]
pub(in crate::limit) struct Bucket {
    balance: AtomicI64,
    /// Time of the last fill, by `CLOCK_MONOTONIC`; zero: never.
    filled: AtomicU64,
}

impl Bucket {
    pub(in crate::limit) fn clear(&self) {
        self.balance.store(0, Relaxed);
        self.filled.store(0, Relaxed);
    }

    /// Keeps a debt for the next process of the job, up to the part of [`MAX_KEPT`].
    pub(in crate::limit) fn keep_debt(&self, part: u64) {
        let kept = |balance: i64| Some(balance.clamp(-part_of(MAX_KEPT, part), 0));
        let _ = self.balance.fetch_update(Relaxed, Relaxed, kept);
    }

    /// Returns the nanoseconds from `now` in which the clock pays the debt.
    pub(in crate::limit) fn debt(&self, now: u64, part: u64) -> u64 {
        let owed = self.claim(part).min(0).unsigned_abs();
        owed.saturating_sub(now.saturating_sub(self.filled.load(Relaxed)))
    }

    /// Fills it for the time since the last fill: up to a burst after a pause, and otherwise up to
    /// the part of [`MAX_SAVED`]. A clock that goes back fills nothing.
    pub(in crate::limit) fn fill(&self, now: u64, part: u64, is_pause: bool) {
        let before = self.filled.load(Relaxed);
        if now <= before && before - now <= MAX_STEP {
            return;
        }
        if self.filled.compare_exchange(before, now, Relaxed, Relaxed).is_err() {
            return; // another process does it
        }
        let passed = if before == 0 { 0 } else { now.saturating_sub(before) };
        let more = u128::from(passed) * u128::from(part) / u128::from(MILLION);
        let more = i64::try_from(more).unwrap_or(i64::MAX);
        let most = if is_pause { BURST } else { BURST.max(part_of(MAX_SAVED, part)) };
        let add = |balance: i64| Some(balance.saturating_add(more).min(most.max(balance)));
        let _ = self.balance.fetch_update(Relaxed, Relaxed, add);
    }

    /// Returns the time until work may begin, at this part of the time in parts per million. Zero:
    /// it may begin now.
    pub(in crate::limit) fn wait(&self, part: u64) -> Duration {
        self.wait_for(0, part)
    }

    /// Returns the time until the balance is what the clock fills in `nanos`.
    pub(in crate::limit) fn wait_for(&self, nanos: u64, part: u64) -> Duration {
        let wanted = i64::try_from(nanos).unwrap_or(i64::MAX);
        Duration::from_nanos(wanted.saturating_sub(self.claim(part)).max(0).unsigned_abs())
    }

    /// Returns the nanoseconds in which the clock fills the balance. Negative: the time to pay a
    /// debt.
    pub(in crate::limit) fn claim(&self, part: u64) -> i64 {
        let part = i64::try_from(part.max(1)).unwrap_or(i64::MAX);
        self.balance.load(Relaxed).saturating_mul(MILLION as i64) / part
    }

    /// Subtracts the time of work.
    pub(in crate::limit) fn take(&self, nanos: u64) {
        self.take_down_to(nanos, i64::MIN);
    }

    /// Subtracts the time of work that no other job may have wanted.
    pub(in crate::limit) fn take_spare(&self, nanos: u64, part: u64) {
        self.take_down_to(nanos, -part_of(MAX_SAVED, part));
    }

    fn take_down_to(&self, nanos: u64, least: i64) {
        let nanos = nanos.min(MAX_STEP) as i64;
        let less = |balance: i64| Some(balance.saturating_sub(nanos).max(least.min(balance)));
        let _ = self.balance.fetch_update(Relaxed, Relaxed, less);
    }
}

fn part_of(time: u64, part: u64) -> i64 {
    (u128::from(time) * u128::from(part) / u128::from(MILLION)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn wait(bucket: &Bucket, now: u64, part: u64) -> Duration {
        bucket.fill(now, part, true);
        bucket.wait(part)
    }

    #[test]
    fn overused_time_is_waited_for() {
        let bucket = Bucket::default();
        assert_eq!(wait(&bucket, SECOND, 100_000), Duration::ZERO, "new");
        bucket.take(30_000_000);
        assert_eq!(wait(&bucket, SECOND, 100_000), Duration::from_millis(300));
        assert_eq!(wait(&bucket, SECOND + 200_000_000, 100_000), Duration::from_millis(100));
        assert_eq!(wait(&bucket, 9 * SECOND, 100_000), Duration::ZERO);
        bucket.take(BURST as u64 + 1_000_000); // a pause saves a burst, and no more
        assert_eq!(wait(&bucket, 9 * SECOND, 100_000), Duration::from_millis(10));
    }

    #[test]
    fn waiting_saves_more_than_a_pause_and_spare_time_is_bounded() {
        let (bucket, part) = (Bucket::default(), 500_000);
        bucket.fill(SECOND, part, false);
        bucket.fill(2 * SECOND, part, false);
        assert_eq!(bucket.claim(part), MAX_SAVED as i64);
        bucket.fill(3 * SECOND, part, true); // a pause takes nothing of it, and adds nothing
        bucket.take(80_000_000);
        assert_eq!(bucket.claim(part), MAX_SAVED as i64 - 160_000_000);
        (0..9).for_each(|_| bucket.take_spare(SECOND, part));
        assert_eq!(bucket.claim(part), -(MAX_SAVED as i64));
        bucket.take(1_000_000);
        bucket.take_spare(1, part); // what is missing already isn't given back
        assert_eq!(bucket.claim(part), -(MAX_SAVED as i64) - 2_000_000);
    }

    #[test]
    fn jump_of_the_clock_gives_a_burst_and_takes_one_step() {
        let bucket = Bucket::default();
        wait(&bucket, SECOND, 500_000);
        wait(&bucket, u64::MAX, 500_000);
        bucket.take(u64::MAX);
        assert_eq!(wait(&bucket, u64::MAX, 500_000), Duration::from_millis(160));
        // Far back: the time that it shows now is the one that counts.
        assert_eq!(wait(&bucket, SECOND, 500_000), Duration::from_millis(160));
        assert_eq!(wait(&bucket, SECOND + 160_000_000, 500_000), Duration::ZERO);
    }
}
