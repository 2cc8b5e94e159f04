//! Observes requests without changing them.

use crate::engine::api::{Instance, Ran, Run};
use crate::error::Result;
use crate::observe::metrics::Metrics;
use crate::observe::tracer::Tracer;
use parking_lot::Mutex;
use reef::HostMemory;
use reef_guest::registry::Registry;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Numbers, traces, and how busy the device is.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    pub(crate) metrics: Metrics,
    pub(crate) tracer: Tracer,
    pub(crate) busy: Busy,
    /// Unmodified programs, for traces, and the daemon's number among them.
    pub(crate) guests: Mutex<(Weak<Registry>, Option<u32>)>,
}

/// How long at least one inference was on the device: it runs there, waits its turn, or is preempted.
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
    fn try_acquire(&self) -> Working<'_> {
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

/// An instance whose busy time is counted.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) instance: Box<dyn Instance>,
    pub(crate) observer: Arc<Observer>,
}

impl Instance for Observed {
    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.instance.write(offset, bytes)
    }

    fn share(&mut self, memory: HostMemory, slots: &[(usize, usize)]) -> Result<bool> {
        self.instance.share(memory, slots)
    }

    fn run(&mut self, run: Run<'_>) -> Result<Ran> {
        let _working = self.observer.busy.try_acquire();
        self.instance.run(run)
    }

    fn read(&mut self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.instance.read(offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_two_share_counts_once() {
        let busy = Busy::default();
        let begin = Instant::now();
        let first = busy.try_acquire();
        let second = busy.try_acquire();
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
