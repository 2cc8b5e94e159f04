//! When a guest was held, or held others: for how long in all, and the last times.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So many times are kept.
pub const MAX_SPANS: usize = 128;

/// A time on all processes' clock (`CLOCK_MONOTONIC`), in nanoseconds; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    /// This moment.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanos).max(1))
    }
}

/// Spans of one guest. Whoever is the first to hold begins one, and whoever is the last to release
/// ends it, from whichever process; two that do so at the same moment may lose or shorten one,
/// which nothing but reports depends on.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Spans {
    /// When the one began that hasn't ended; 0: there is none.
    since: AtomicU64,
    /// Nanoseconds of those that have ended.
    total: AtomicU64,
    /// How many have ended.
    ended: AtomicU64,
    /// The last of them, each with its beginning and its end.
    last: [[AtomicU64; 2]; MAX_SPANS],
}

impl Default for Spans {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        let last = std::array::from_fn(|_| [zero(), zero()]);
        Self { since: zero(), total: zero(), ended: zero(), last }
    }
}

impl Spans {
    /// A span begins.
    pub fn begin(&self, now: Time) {
        self.since.store(now.0, Relaxed);
    }

    /// The span ends, if there is one.
    pub fn end(&self, now: Time) {
        let since = self.since.swap(0, Relaxed);
        if since == 0 {
            return;
        }
        self.total.fetch_add(now.0.saturating_sub(since), Relaxed);
        let at = self.ended.fetch_add(1, Relaxed);
        if let Some([begin, end]) = self.last.get(at as usize % MAX_SPANS) {
            begin.store(since, Relaxed);
            end.store(now.0, Relaxed);
        }
    }

    /// Nanoseconds until now, those of an open span included.
    pub fn total(&self, now: Time) -> u64 {
        let open = match self.since.load(Relaxed) {
            0 => 0,
            since => now.0.saturating_sub(since),
        };
        self.total.load(Relaxed).saturating_add(open)
    }

    /// How many have ended.
    pub fn ended(&self) -> u64 {
        self.ended.load(Relaxed)
    }

    /// When the one began that hasn't ended.
    pub fn since(&self) -> Option<Time> {
        Some(self.since.load(Relaxed)).filter(|since| *since != 0).map(Time)
    }

    /// Those that ended behind the first `seen`, as far as they are kept.
    pub fn behind(&self, seen: u64) -> Vec<(Time, Time)> {
        let ended = self.ended();
        let first = seen.max(ended.saturating_sub(MAX_SPANS as u64));
        let read = |time: &AtomicU64| Time(time.load(Relaxed));
        let place = |at: u64| self.last.get(at as usize % MAX_SPANS);
        (first..ended).filter_map(place).map(|[begin, end]| (read(begin), read(end))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_add_up_and_the_last_are_kept() {
        let spans = Spans::default();
        spans.end(Time(5));
        assert_eq!((spans.ended(), spans.total(Time(9))), (0, 0), "none began");
        for at in 1..=200 {
            spans.begin(Time(10 * at));
            assert_eq!(spans.total(Time(10 * at + 2)), 3 * (at - 1) + 2);
            spans.end(Time(10 * at + 3));
        }
        assert_eq!((spans.ended(), spans.total(Time(9999)), spans.since()), (200, 600, None));
        assert_eq!(spans.behind(198), [(Time(1990), Time(1993)), (Time(2000), Time(2003))]);
        assert_eq!(spans.behind(0).len(), MAX_SPANS);
        assert_eq!(spans.behind(u64::MAX), []);
    }

    #[test]
    fn what_a_guest_writes_there_is_a_wrong_number_and_no_more() {
        let spans = Spans::default();
        let words = [&spans.since, &spans.total, &spans.ended];
        words.into_iter().for_each(|word| word.store(u64::MAX, Relaxed));
        assert_eq!(spans.total(Time(7)), u64::MAX);
        assert!(spans.behind(0).len() <= MAX_SPANS);
        spans.end(Time(7));
        assert!(Time::now() > Time(0));
    }
}
