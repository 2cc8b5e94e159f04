//! Spans in which a guest was held, or held others: their total, and the last of them.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Maximum number of spans that are kept.
pub const MAX_SPANS: usize = 128;

/// Time by `CLOCK_MONOTONIC`, the same clock in all processes, in nanoseconds; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    /// Returns the current time.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanos).max(1))
    }
}

/// Spans of one guest. The first holder begins a span and the last one ends it, from any process.
/// Two that do so at the same moment may lose or shorten a span; only reports depend on that.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Spans {
    /// Begin of the open span; 0: there is none.
    since: AtomicU64,
    /// Nanoseconds of the ended spans.
    total: AtomicU64,
    /// Number of ended spans.
    ended: AtomicU64,
    /// The last ended spans, each with its begin and its end.
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
    /// Begins a span.
    pub fn begin(&self, now: Time) {
        self.since.store(now.0, Relaxed);
    }

    /// Ends the open span, if there is one.
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

    /// Returns the nanoseconds of all spans until now, those of the open span included.
    pub fn total(&self, now: Time) -> u64 {
        let open = match self.since.load(Relaxed) {
            0 => 0,
            since => now.0.saturating_sub(since),
        };
        self.total.load(Relaxed).saturating_add(open)
    }

    /// Returns the number of ended spans.
    pub fn ended(&self) -> u64 {
        self.ended.load(Relaxed)
    }

    /// Returns the begin of the open span.
    pub fn since(&self) -> Option<Time> {
        Some(self.since.load(Relaxed)).filter(|since| *since != 0).map(Time)
    }

    /// Returns whether a span is open, or the last one ended less than `time` before `now`.
    pub fn is_recent(&self, now: Time, time: Duration) -> bool {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let last = self.behind(self.ended().saturating_sub(1));
        let is_recent = |(_, end): &(Time, Time)| now.0.saturating_sub(end.0) < nanos;
        self.since().is_some() || last.iter().any(is_recent)
    }

    /// Returns the spans that ended after the first `seen`, as far as they are kept.
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
    fn span_is_recent_while_it_is_open_and_for_a_time_after_its_end() {
        let (spans, time) = (Spans::default(), Duration::from_nanos(10));
        assert!(!spans.is_recent(Time(5), time), "there was none");
        for begin in [100, 200] {
            spans.begin(Time(begin));
            assert!(spans.is_recent(Time(begin + 90), time), "it is open");
            spans.end(Time(begin + 50));
            let at = [50, 59, 60, 90].map(|at| spans.is_recent(Time(begin + at), time));
            assert_eq!(at, [true, true, false, false]);
        }
    }

    #[test]
    fn any_words_of_a_guest_give_wrong_numbers_and_no_harm() {
        let spans = Spans::default();
        let words = [&spans.since, &spans.total, &spans.ended];
        words.into_iter().for_each(|word| word.store(u64::MAX, Relaxed));
        assert_eq!(spans.total(Time(7)), u64::MAX);
        assert!(spans.behind(0).len() <= MAX_SPANS);
        assert!(spans.is_recent(Time(7), Duration::MAX));
        spans.end(Time(7));
        assert!(Time::now() > Time(0));
    }
}
