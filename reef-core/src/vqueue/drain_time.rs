//! Estimate of the length of a queue's blocks, from its stops.
//!
//! The host cannot see how long a block runs. It sees how long the device takes to release a queue
//! that it was told to stop: about as long as the blocks that have begun. Blocks that are stopped
//! near their end look short, so one long stop counts for the next [`REMEMBERED_STOPS`] ones.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Upper bound of a short stop: a real-time kernel should not wait longer for the blocks of others.
/// Stops of networks' kernels take 10 to 60 µs (H200, docs/measured.md), on a busy host somewhat
/// more.
const MAX_SHORT_STOP: Duration = Duration::from_micros(250);
/// Stops for which a long one counts.
const REMEMBERED_STOPS: u32 = 8;

/// Time of the last stop.
#[derive(Debug)]
pub(crate) struct DrainTime {
    origin: Instant,
    /// Begin of the stop that lasts, in nanoseconds from the origin, plus one; 0: none lasts.
    /// Written by the group, and by the thread that takes back.
    begun: AtomicU64,
    /// Stops for which the queue still counts as one of long blocks. Written by the thread that
    /// takes back.
    long: AtomicU32,
}

impl Default for DrainTime {
    fn default() -> Self {
        Self { origin: Instant::now(), begun: AtomicU64::new(0), long: AtomicU32::new(0) }
    }
}

impl DrainTime {
    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX - 1)
    }

    /// The device is about to be told.
    pub(crate) fn begin(&self) {
        self.begin_at(self.now());
    }

    fn begin_at(&self, now: u64) {
        self.begun.store(now + 1, Ordering::Release);
    }

    /// The device has stopped. Only the first call after [`begin`](Self::begin) counts.
    pub(crate) fn end(&self) {
        self.end_at(self.now());
    }

    fn end_at(&self, now: u64) {
        let begun = self.begun.swap(0, Ordering::AcqRel);
        let Some(begun) = begun.checked_sub(1) else { return };
        let is_long = Duration::from_nanos(now.saturating_sub(begun)) > MAX_SHORT_STOP;
        let left = self.long.load(Ordering::Relaxed).saturating_sub(1);
        self.long.store(if is_long { REMEMBERED_STOPS } else { left }, Ordering::Release);
    }

    /// Returns whether one of the last stops was long.
    pub(crate) fn is_long(&self) -> bool {
        self.long.load(Ordering::Acquire) > 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn long_stop_counts_for_the_next_ones() {
        let (drain, long) = (DrainTime::default(), MAX_SHORT_STOP.as_nanos() as u64 + 1);
        drain.begin_at(5);
        drain.end_at(5 + long);
        for stop in 0..u64::from(REMEMBERED_STOPS) {
            assert!(drain.is_long(), "stop {stop}");
            drain.begin_at(long * stop);
            drain.end_at(long * stop + long - 1);
        }
        assert!(!drain.is_long());
    }

    #[test]
    fn end_without_a_begin_changes_nothing() {
        let drain = DrainTime::default();
        drain.begin_at(0);
        drain.end_at(u64::MAX / 2);
        (0..20).for_each(|_| drain.end_at(u64::MAX / 2));
        assert!(drain.is_long());
    }
}
