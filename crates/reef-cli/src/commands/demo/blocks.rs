//! First part: requests next to best-effort blocks that are long.

use crate::workload::calibrate::{Calibration, wave};
use crate::workload::clients::wait_or_stop;
use crate::workload::clock::sleep_until;
use crate::workload::requests::{Requests, open_loop};
use anyhow::{Result, anyhow, ensure};
use reef::scheduler::Scheduler;
use reef::{
    BeClient, ClientConfig, Device, Dispatcher, Task,
    queue::Config,
    testing::{Cells, appended},
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time of a best-effort block.
pub(crate) const BLOCK: Duration = Duration::from_millis(10);
/// Mean time from one request to the next: blocks that are stopped midway run again, and most of
/// them are to end.
pub(crate) const PERIOD: Duration = Duration::from_millis(50);
/// Part of the period by which arrivals are shifted, so that they are not in step with blocks.
const SHIFT: f64 = 0.5;
/// The shifts of arrivals one after the other are as even as they can be: the golden ratio.
const EVEN: f64 = 0.618_034;

/// Classes that run in a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Classes {
    RealTime,
    BestEffort,
    Both,
}

/// Result of one measurement.
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) requests: Requests,
    /// Best-effort kernels per second.
    pub(crate) rate: f64,
    pub(crate) preemptions: u64,
}

/// Device, and how long a measurement is.
pub(crate) struct Blocks<'a, D: Device> {
    device: &'a D,
    /// Rounds of a best-effort block.
    rounds: u64,
    time: Duration,
}

impl<'a, D: Device> Blocks<'a, D> {
    /// Finds how long a block of the device has to wait for [`BLOCK`].
    pub(crate) fn new(device: &'a D, time: Duration) -> Result<Self> {
        let (rounds, _) = Calibration::new(device)?.rounds(device, BLOCK)?;
        Ok(Self { device, rounds, time })
    }

    /// Measures under `scheduler`.
    ///
    /// # Errors
    ///
    /// The device's; a block that did not take effect exactly once.
    pub(crate) fn measure(
        &self,
        name: &str,
        scheduler: Box<dyn Scheduler>,
        classes: Classes,
    ) -> Result<Start> {
        let dispatcher = Dispatcher::start(self.device, scheduler)?;
        let stop = AtomicBool::new(false);
        let (rate, requests) = thread::scope(|scope| {
            let client = (classes != Classes::RealTime).then(|| self.best_effort(&dispatcher));
            let client = client.transpose()?;
            let filling = client.map(|client| scope.spawn(|| self.fill(client, &stop)));
            let requests = self.requests(&dispatcher, classes);
            stop.store(true, Ordering::Release);
            let joined = filling.map(|filling| filling.join());
            let rate = joined.map(|rate| rate.map_err(|_| anyhow!("the client panicked"))?);
            Ok::<_, anyhow::Error>((rate.transpose()?.unwrap_or_default(), requests?))
        })?;
        let preemptions = dispatcher.stats().preemptions;
        Ok(Start { name: name.into(), requests, rate, preemptions })
    }

    /// A client whose queue has a kernel behind the one that runs.
    fn best_effort(&self, dispatcher: &Dispatcher<D>) -> Result<BeClient<D>> {
        let queue = Config::default().window(2);
        Ok(dispatcher.best_effort(ClientConfig::default().queue(queue))?)
    }

    /// Kernels back to back until told to stop; returns how many ended per second.
    fn fill(&self, mut client: BeClient<D>, stop: &AtomicBool) -> Result<f64> {
        let cells = wave(self.device)?;
        let begin = Instant::now();
        let (mut submitted, mut before) = (0, None);
        while !stop.load(Ordering::Acquire) {
            let last = client.submit(&[cells.append(1, self.rounds)])?;
            submitted += 1;
            if let Some(before) = before.replace(last) {
                wait_or_stop(&client, before, stop)?;
            }
        }
        let done = client.submitter().completed().0 as f64;
        let rate = done / begin.elapsed().as_secs_f64();
        if let Some(last) = before {
            client.wait(last)?;
        }
        check(&cells, submitted)?;
        Ok(rate)
    }

    fn requests(&self, dispatcher: &Dispatcher<D>, classes: Classes) -> Result<Requests> {
        if classes == Classes::BestEffort {
            thread::sleep(self.time);
            return Ok(Requests::default());
        }
        let cells = Cells::new(self.device, 1)?;
        let task = Task::new([cells.append(1, 0)])?;
        let client = dispatcher.real_time()?;
        let arrivals = arrivals(self.time);
        let requests = open_loop(self.device, client, &task, &arrivals, self.time, sleep_until)?;
        check(&cells, requests.latency.len())?; // those that were refused are not in it
        Ok(requests)
    }
}

/// Times of requests within `time`.
fn arrivals(time: Duration) -> Vec<Duration> {
    let shift = |k: u32| PERIOD.mul_f64(SHIFT * (f64::from(k) * EVEN).fract());
    (0..).map(|k| PERIOD * k + shift(k)).take_while(|&at| at < time).collect()
}

/// Refuses work that was lost or done twice.
fn check<D: Device>(cells: &Cells<D>, times: u64) -> Result<()> {
    let want = appended((0..times).map(|_| 1));
    ensure!(cells.read()?.iter().all(|&cell| cell == want), "work was lost or repeated");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_in_order_and_not_in_step_with_blocks() {
        let arrivals = arrivals(Duration::from_secs(2));
        assert_eq!(arrivals.len(), 40);
        assert!(arrivals.is_sorted());
        let phase = |at: &Duration| at.as_micros() % BLOCK.as_micros() / 1000;
        let phases: std::collections::BTreeSet<_> = arrivals.iter().map(phase).collect();
        assert!(phases.len() >= 8, "{phases:?}");
    }
}
