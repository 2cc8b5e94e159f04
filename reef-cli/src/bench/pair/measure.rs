//! Runs both clients under a policy and notes what they experience.

use super::arrivals::{Arrivals, poisson};
use crate::bench::policy::{Lengths, Policy};
use crate::bench::time::{histogram, note, wait_until};
use crate::workload::clients::closed_loop;
use crate::workload::networks::Named;
use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use reef::op::Operators;
use reef::{Colocation, Command, Device, Dispatcher, Error, Fill, RtClient, Stats, Task, Ticket};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Names of the rows that others are compared with.
pub(crate) const RT_ALONE: &str = "rt-only (alone)";
pub(crate) const BE_ALONE: &str = "BE alone";
pub(crate) const RT_COLD: &str = "rt-only (caches emptied)";

/// A request that was submitted so much after its arrival says that this process found no core.
const LATE: Duration = Duration::from_millis(1);
/// How often the last requests are looked after. Their times are the dispatcher's.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Both networks, and how long to measure.
pub(crate) struct Bench<'a, D: Operators> {
    pub(crate) device: &'a D,
    pub(crate) rt: Named<D>,
    pub(crate) be: Named<D>,
    pub(crate) time: Duration,
    /// What policies leave open.
    pub(crate) lengths: &'a Lengths,
}

/// What real-time requests experienced.
pub(crate) struct Requests {
    /// From arrival until the dispatcher noted the end, in nanoseconds. A request that never ended
    /// is in it with the time that it waited.
    pub(crate) latency: Histogram<u64>,
    /// Requests that were submitted later than [`LATE`].
    pub(crate) late: u64,
    /// Requests that were refused, or not finished in twice the time of the measurement.
    pub(crate) dropped: u64,
}

/// What happened in one measurement.
pub(crate) struct Row {
    /// How requests arrived; `None` if there were none.
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) policy: String,
    pub(crate) latency: Histogram<u64>,
    pub(crate) late: u64,
    pub(crate) dropped: u64,
    /// Best-effort inferences per second; 0 if there was no such client.
    pub(crate) be_rate: f64,
    pub(crate) stats: Stats,
    /// p50 and p99 of real-time requests alone, in nanoseconds.
    pub(crate) alone: Option<[u64; 2]>,
    /// Best-effort inferences per second alone.
    pub(crate) alone_rate: f64,
}

impl Row {
    /// To be compared with each side alone.
    #[must_use]
    pub(crate) fn beside(self, alone: Option<[u64; 2]>, alone_rate: f64) -> Self {
        Self { alone, alone_rate, ..self }
    }

    /// p50 and p99 of real-time requests, in nanoseconds.
    pub(crate) fn quantiles(&self) -> [u64; 2] {
        [0.5, 0.99].map(|q| self.latency.value_at_quantile(q))
    }

    /// p50 and p99 of real-time requests ÷ those alone.
    pub(crate) fn over_alone(&self) -> Option<[f64; 2]> {
        let alone = self.alone.filter(|_| !self.latency.is_empty())?;
        let [p50, p99] = self.quantiles();
        Some([p50 as f64 / alone[0] as f64, p99 as f64 / alone[1] as f64])
    }
}

impl<D: Operators> Bench<'_, D> {
    /// Best-effort work as if there were no preemption: the most that it could keep.
    pub(crate) fn be_alone(&self) -> Result<Row> {
        let row = self.measure(None, Policy::named("streams"), true)?;
        Ok(Row { policy: BE_ALONE.into(), ..row })
    }

    /// Real-time work with the device to itself.
    pub(crate) fn rt_alone(&self, arrivals: &Arrivals) -> Result<Row> {
        let row = self.measure(Some(arrivals), Policy::named("rt-only"), false)?;
        Ok(Row { policy: RT_ALONE.into(), ..row })
    }

    /// Real-time work with the device to itself, one request after the other, `bytes` bytes of memory being
    /// filled before each.
    pub(crate) fn rt_cold(&self, bytes: usize) -> Result<Row> {
        let policy = Policy::named("rt-only");
        let task = Task::new(self.rt_commands(&policy)?)?;
        let fill = Fill { buffer: self.device.alloc(bytes)?, offset: 0, bytes, word: 0 };
        let fill = Task::new([Command::Fill(fill)])?;
        let dispatcher = Dispatcher::start(self.device, policy.scheduler)?;
        let mut client = dispatcher.real_time()?;
        let mut requests = Requests::default();
        let end = self.device.clock() + self.time;
        while self.device.clock() < end {
            client.run(&fill)?;
            note(&mut requests.latency, client.run(&task)?.total);
        }
        let arrivals = Some(Arrivals::Closed);
        Ok(requests.row(arrivals, RT_COLD.into(), 0.0, dispatcher.stats()))
    }

    pub(crate) fn both(&self, arrivals: &Arrivals, policy: Policy) -> Result<Row> {
        self.measure(Some(arrivals), policy, true)
    }

    fn measure(&self, arrivals: Option<&Arrivals>, policy: Policy, be: bool) -> Result<Row> {
        let be_commands = self.be.network.graphs(self.lengths.graph(&policy))?;
        let task = Task::new(self.rt_commands(&policy)?)?;
        let config = policy.client(self.lengths.window);
        let dispatcher = Dispatcher::start(self.device, policy.scheduler)?;
        let stop = AtomicBool::new(false);
        let (requests, be_rate) = thread::scope(|scope| {
            let run = || closed_loop(&dispatcher, config, &be_commands, &stop);
            let client = be.then(|| scope.spawn(run));
            let requests = dispatcher
                .real_time()
                .map_err(Into::into)
                .and_then(|client| self.requests(client, &task, arrivals));
            stop.store(true, Ordering::Release);
            let joined = client.map(|client| client.join());
            let rate =
                joined.transpose().map_err(|_| anyhow!("the best-effort client panicked"))?;
            Ok::<_, anyhow::Error>((requests?, rate.transpose()?.unwrap_or(0.0)))
        })?;
        Ok(requests.row(arrivals.copied(), policy.name, be_rate, dispatcher.stats()))
    }

    /// One graph; kernel by kernel where best-effort blocks are put beside each.
    fn rt_commands(&self, policy: &Policy) -> Result<Arc<[Command<D>]>> {
        let one_by_one = policy.pads && self.device.colocation() == Colocation::Padded;
        Ok(self.rt.network.graphs(if one_by_one { 1 } else { usize::MAX })?)
    }

    fn requests(
        &self,
        client: RtClient<D>,
        task: &Task<D>,
        arrivals: Option<&Arrivals>,
    ) -> Result<Requests> {
        match arrivals {
            Some(&Arrivals::Random { rate, seed }) => {
                open_loop(self.device, client, task, &poisson(rate, seed, self.time), self.time)
            }
            Some(Arrivals::Closed) => back_to_back(self.device, client, task, self.time),
            None => {
                thread::sleep(self.time);
                Ok(Requests::default())
            }
        }
    }
}

impl Default for Requests {
    fn default() -> Self {
        Self { latency: histogram(), late: 0, dropped: 0 }
    }
}

/// One request after the other.
fn back_to_back<D: Device>(
    device: &D,
    mut client: RtClient<D>,
    task: &Task<D>,
    time: Duration,
) -> Result<Requests> {
    let mut requests = Requests::default();
    let end = device.clock() + time;
    while device.clock() < end {
        note(&mut requests.latency, client.run(task)?.total);
    }
    Ok(requests)
}

/// Submits each request when it arrives, whatever became of those before. Its latency counts from
/// its arrival, so one that has to wait for others, or for this thread, shows it.
pub(crate) fn open_loop<D: Device>(
    device: &D,
    mut client: RtClient<D>,
    task: &Task<D>,
    arrivals: &[Duration],
    time: Duration,
) -> Result<Requests> {
    let mut requests = Requests::default();
    let mut open = VecDeque::new();
    let begin = device.clock();
    for &after in arrivals {
        let arrived = begin + after;
        wait_until(device, arrived);
        requests.late += u64::from(device.clock() - arrived > LATE);
        match client.submit(task) {
            Ok(ticket) => open.push_back(Open { arrived, ticket }),
            Err(Error::State(_)) => requests.dropped += 1,
            Err(error) => return Err(error.into()),
        }
        requests.note_finished(&mut open)?;
    }
    while !open.is_empty() && device.clock() < begin + 2 * time {
        thread::sleep(POLL_INTERVAL);
        requests.note_finished(&mut open)?;
    }
    for request in open {
        note(&mut requests.latency, device.clock() - request.arrived);
        requests.dropped += 1;
    }
    wait_until(device, begin + time);
    Ok(requests)
}

/// A request that has not been seen to finish.
struct Open<D: Device> {
    arrived: Duration,
    ticket: Ticket<D>,
}

impl Requests {
    /// With all else that is known; compared with nothing yet.
    fn row(self, arrivals: Option<Arrivals>, policy: String, be_rate: f64, stats: Stats) -> Row {
        let Self { latency, late, dropped } = self;
        let (alone, alone_rate) = (None, be_rate);
        Row { arrivals, policy, latency, late, dropped, be_rate, stats, alone, alone_rate }
    }

    /// Takes out what has finished; requests do so in the order in which they came.
    fn note_finished<D: Device>(&mut self, open: &mut VecDeque<Open<D>>) -> Result<()> {
        while let Some(timing) = open.front().and_then(|request| request.ticket.try_wait()) {
            let (timing, request) = (timing?, open.pop_front().expect("the front is there"));
            note(&mut self.latency, timing.submitted + timing.total - request.arrived);
        }
        Ok(())
    }
}
