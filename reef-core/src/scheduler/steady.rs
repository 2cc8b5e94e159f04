//! Detection of real-time work that lasts, so that best-effort work should run next to it.

use std::time::Duration;

/// Time after which real-time work counts as lasting, and best-effort work runs capped next to it.
///
/// Best-effort work is stopped once more for that, and slows the rest of a burst. On an H200, next
/// to five real-time clients whose requests come together, 1 ms made these 1.5 times as slow and
/// gave best-effort work nothing (docs/lab/nvidia.md). Running capped is for real-time work that
/// doesn't end.
const MIN_STEADY: Duration = Duration::from_millis(10);

/// Length of a pause that interrupts it. A client that asks again as soon as it has its answer
/// pauses for some 10 µs after each request.
const MIN_PAUSE: Duration = Duration::from_micros(300);

/// Length of a stretch of real-time work, with pauses of less than 300 µs counted in.
///
/// The dispatcher runs best-effort queues capped next to real-time work that lasts; simulators of
/// it do the same.
///
/// ```
/// use reef_core::scheduler::Steady;
/// use std::time::Duration;
///
/// let mut steady = Steady::default();
/// steady.note(true, Duration::ZERO);
/// steady.note(true, Duration::from_millis(10));
/// assert!(steady.is_long(Duration::from_millis(10)));
/// ```
#[derive(Debug, Default)]
pub struct Steady {
    since: Option<Duration>,
    /// Time at which there last was some.
    last: Duration,
    /// There was some at the last note, and so until the next one.
    has_work: bool,
}

impl Steady {
    /// Notes whether there is some at `now`. Times may not go back.
    pub fn note(&mut self, has_work: bool, now: Duration) {
        if self.has_work {
            self.last = now;
        } else if now >= self.ends() {
            self.since = None;
        }
        if has_work {
            self.since.get_or_insert(now);
            self.last = now;
        }
        self.has_work = has_work;
    }

    /// Returns whether it has lasted for 10 ms, as of the last note.
    pub fn is_long(&self, now: Duration) -> bool {
        self.since.is_some_and(|since| now.saturating_sub(since) >= MIN_STEADY)
    }

    /// Returns the time at which a pause interrupts it, unless there is work before.
    pub fn ends(&self) -> Duration {
        self.last.saturating_add(MIN_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// Requests of 400 µs with these pauses between them; returns the number of requests after
    /// which the work counted as lasting.
    fn requests(pauses: impl IntoIterator<Item = u64>) -> Option<usize> {
        let (mut steady, mut now) = (Steady::default(), 1_000_000);
        pauses.into_iter().position(|pause| {
            steady.note(true, at(now));
            steady.note(false, at(now + 400));
            now += 400 + pause;
            steady.is_long(at(now - pause))
        })
    }

    #[test]
    fn closed_loop_lasts_after_ten_milliseconds() {
        assert_eq!(requests([10; 100]), Some(24));
        assert_eq!(requests([299; 100]), Some(14));
    }

    #[test]
    fn requests_with_pauses_never_last() {
        assert_eq!(requests([300; 1000]), None);
        assert_eq!(requests((1..1000).map(|n| if n % 20 == 0 { 1000 } else { 10 })), None);
    }

    #[test]
    fn single_long_task_lasts() {
        let mut steady = Steady::default();
        steady.note(true, at(5));
        steady.note(true, at(10_005));
        assert!(steady.is_long(at(10_005)));
    }

    #[test]
    fn pause_interrupts_lasting_work() {
        let mut steady = Steady::default();
        steady.note(true, at(30_000));
        steady.note(false, at(50_000));
        assert_eq!((steady.is_long(at(50_000)), steady.ends()), (true, at(50_300)));
        steady.note(false, at(50_299));
        assert!(steady.is_long(at(50_299)));
        steady.note(false, at(50_300));
        assert!(!steady.is_long(at(50_300)));
    }
}
