//! Whether real-time work has been there for so long that best-effort work had better run beside
//! it.

use std::time::Duration;

/// How long real-time work lasts before best-effort work runs capped beside it.
///
/// Best-effort work is stopped once more for that, and slows the rest of a burst: on an H200,
/// beside five real-time clients whose requests come together, 1 ms made these 1.5 times as slow
/// and gave best-effort work nothing (docs/lab/nvidia.md). It is for real-time work that doesn't
/// end.
const LONG: Duration = Duration::from_millis(10);

/// Pauses that don't interrupt it: a client that asks again as soon as it has its answer makes one
/// of some 10 µs after each.
const PAUSE: Duration = Duration::from_micros(300);

/// How long real-time work has been there, pauses of less than 300 µs counted in.
///
/// The dispatcher has best-effort queues run capped beside real-time work that lasts; simulators of
/// it ask the same.
#[derive(Debug, Default)]
pub struct Steady {
    since: Option<Duration>,
    /// When there last was some.
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

    /// Whether it has lasted for 10 ms, as of the last note.
    pub fn is_long(&self, now: Duration) -> bool {
        self.since.is_some_and(|since| now.saturating_sub(since) >= LONG)
    }

    /// When a pause will have been one, unless there is work before.
    pub fn ends(&self) -> Duration {
        self.last.saturating_add(PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// Requests of 400 µs with these pauses between them; how many there were when that had become
    /// long.
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
    fn a_closed_loop_is_long_after_ten_milliseconds() {
        assert_eq!(requests([10; 100]), Some(24));
        assert_eq!(requests([299; 100]), Some(14));
    }

    #[test]
    fn requests_with_pauses_never_are() {
        assert_eq!(requests([300; 1000]), None);
        assert_eq!(requests((1..1000).map(|n| if n % 20 == 0 { 1000 } else { 10 })), None);
    }

    #[test]
    fn one_long_task_is_long() {
        let mut steady = Steady::default();
        steady.note(true, at(5));
        steady.note(true, at(10_005));
        assert!(steady.is_long(at(10_005)));
    }

    #[test]
    fn it_is_over_when_a_pause_has_lasted() {
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
