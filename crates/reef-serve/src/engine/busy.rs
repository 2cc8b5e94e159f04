//! Use of a device: time with at least one inference, and number of running requests.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time during which at least one inference was on the device: running, waiting, or preempted.
#[derive(Debug, Default)]
pub(crate) struct Busy(Mutex<Work>);

#[derive(Debug, Default)]
struct Work {
    now: usize,
    since: Option<Instant>,
    before: Duration,
}

impl Busy {
    /// Counts an inference until the guard is dropped.
    pub(crate) fn begin(&self) -> impl Drop + use<'_> {
        let mut work = self.0.lock();
        work.now += 1;
        work.since.get_or_insert_with(Instant::now);
        BusyGuard(self)
    }

    /// Returns the sum so far.
    pub(crate) fn time(&self) -> Duration {
        let work = self.0.lock();
        work.before + work.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

/// An inference on the device.
struct BusyGuard<'a>(&'a Busy);

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        let mut work = self.0.0.lock();
        work.now -= 1;
        if work.now == 0 {
            let time = work.since.take().map(|since| since.elapsed()).unwrap_or_default();
            work.before += time;
        }
    }
}

/// Number of running requests. It may be out of date when it is read.
#[derive(Debug, Default)]
pub(super) struct RunningCount(AtomicUsize);

impl RunningCount {
    /// Counts a request until the guard is dropped.
    pub(super) fn begin(&self) -> impl Drop + use<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        RunningGuard(self)
    }

    pub(super) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// A request on the device.
struct RunningGuard<'a>(&'a RunningCount);

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_two_inferences_counts_once() {
        let busy = Busy::default();
        let begin = Instant::now();
        let first = busy.begin();
        let second = busy.begin();
        std::thread::sleep(Duration::from_millis(20)); // sleep: the time that is counted
        drop(first);
        assert!(busy.time() >= Duration::from_millis(20), "one is still there");
        drop(second);
        let (time, max) = (busy.time(), begin.elapsed());
        assert!(time <= max, "{time:?} of {max:?}");
        std::thread::sleep(Duration::from_millis(5)); // sleep: time that must not count
        assert_eq!(busy.time(), time, "no inference is there");
    }
}
