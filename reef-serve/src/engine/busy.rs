//! How busy a device is, and how many requests are on it.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long at least one inference was on the device: it runs there, waits its turn, or is
/// preempted.
#[derive(Debug, Default)]
pub(crate) struct Busy(Mutex<Work>);

#[derive(Debug, Default)]
struct Work {
    now: usize,
    since: Option<Instant>,
    before: Duration,
}

impl Busy {
    /// One more is on the device until the guard is dropped.
    pub(crate) fn begin(&self) -> impl Drop + use<'_> {
        let mut work = self.0.lock();
        work.now += 1;
        work.since.get_or_insert_with(Instant::now);
        Working(self)
    }

    /// The sum so far.
    pub(crate) fn time(&self) -> Duration {
        let work = self.0.lock();
        work.before + work.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

/// An inference on the device.
struct Working<'a>(&'a Busy);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let mut work = self.0.0.lock();
        work.now -= 1;
        if work.now == 0 {
            let time = work.since.take().map(|since| since.elapsed()).unwrap_or_default();
            work.before += time;
        }
    }
}

/// A count of requests that run. Out of date when it is read.
#[derive(Debug, Default)]
pub(super) struct Running(AtomicUsize);

impl Running {
    /// Counts one until what this returns is dropped.
    pub(super) fn begin(&self) -> impl Drop + use<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        One(self)
    }

    pub(super) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

struct One<'a>(&'a Running);

impl Drop for One<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_two_share_counts_once() {
        let busy = Busy::default();
        let begin = Instant::now();
        let first = busy.begin();
        let second = busy.begin();
        std::thread::sleep(Duration::from_millis(20));
        drop(first);
        assert!(busy.time() >= Duration::from_millis(20), "one is still there");
        drop(second);
        let (time, most) = (busy.time(), begin.elapsed());
        assert!(time <= most, "{time:?} of {most:?}");
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(busy.time(), time, "nobody is there");
    }
}
