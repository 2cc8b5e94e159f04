//! Runs both clients under a policy and notes what they experience.

use super::arrivals::{Arrivals, poisson};
use crate::commands::bench::policy::{Lengths, Policy};
use crate::workload::baselines;
use crate::workload::clients::closed_loop;
use crate::workload::clock::{note, wait_until};
use crate::workload::networks::NamedNetwork;
use crate::workload::requests::{Requests, open_loop};
use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use reef::op::Operators;
use reef::scheduler::WidthCounts;
use reef::{Colocation, Command, Device, Dispatcher, RtClient, Stats, Task, command::Fill};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Names of the rows that others are compared with.
pub(crate) const RT_ALONE: &str = "rt-only (alone)";
pub(crate) const RT_SINGLY: &str = "rt-only (kernel by kernel)";
pub(crate) const BE_ALONE: &str = "BE alone";
pub(crate) const RT_COLD: &str = "rt-only (caches emptied)";

/// Both networks, and how long to measure.
pub(crate) struct Bench<'a, D: Operators> {
    pub(crate) device: &'a D,
    pub(crate) rt: NamedNetwork<D>,
    pub(crate) be: NamedNetwork<D>,
    pub(crate) time: Duration,
    /// Lengths that policies leave open.
    pub(crate) lengths: &'a Lengths,
}

/// Result of one measurement.
pub(crate) struct Row {
    /// Arrivals of requests; `None` without requests.
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) policy: String,
    pub(crate) latency: Histogram<u64>,
    pub(crate) late: u64,
    pub(crate) dropped: u64,
    /// Best-effort inferences per second; 0 if there was no such client.
    pub(crate) be_rate: f64,
    pub(crate) stats: Stats,
    /// Widths next to requests under a target of latency, each with its number of requests.
    pub(crate) widths: Vec<(String, u64)>,
    /// p50 and p99 of real-time requests alone, in nanoseconds.
    pub(crate) alone: Option<[u64; 2]>,
    /// Best-effort inferences per second alone.
    pub(crate) alone_rate: f64,
}

impl Row {
    /// Compared with nothing yet.
    fn of(
        requests: Requests,
        arrivals: Option<Arrivals>,
        policy: String,
        be_rate: f64,
        stats: Stats,
    ) -> Self {
        let Requests { latency, late, dropped, .. } = requests;
        Self {
            arrivals,
            policy,
            latency,
            late,
            dropped,
            be_rate,
            stats,
            widths: Vec::new(),
            alone: None,
            alone_rate: be_rate,
        }
    }

    /// Adds the results of each side alone, to compare with.
    #[must_use]
    pub(crate) fn with_alone(self, alone: Option<[u64; 2]>, alone_rate: f64) -> Self {
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
        let row = self.measure(None, Policy::named(baselines::BE_ALONE), true)?;
        Ok(Row { policy: BE_ALONE.into(), ..row })
    }

    /// Real-time work with the device to itself.
    pub(crate) fn rt_alone(&self, arrivals: &Arrivals) -> Result<Row> {
        let row = self.measure(Some(arrivals), Policy::named("rt-only"), false)?;
        Ok(Row { policy: RT_ALONE.into(), ..row })
    }

    /// Real-time work with the device to itself, kernel by kernel, as it is launched where its
    /// kernels are padded.
    pub(crate) fn rt_singly(&self, arrivals: &Arrivals) -> Result<Row> {
        let policy = Policy::reef(self.device.info().level, true);
        let row = self.measure(Some(arrivals), policy, false)?;
        Ok(Row { policy: RT_SINGLY.into(), ..row })
    }

    /// Real-time work with the device to itself, one request after the other, `bytes` bytes of
    /// memory being filled before each.
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
        Ok(Row::of(requests, arrivals, RT_COLD.into(), 0.0, dispatcher.stats()))
    }

    pub(crate) fn run_both(&self, arrivals: &Arrivals, policy: Policy) -> Result<Row> {
        self.measure(Some(arrivals), policy, true)
    }

    fn measure(&self, arrivals: Option<&Arrivals>, policy: Policy, be: bool) -> Result<Row> {
        let be_commands = self.be.network.graphs(self.be_length(&policy))?;
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
        let widths = policy.widths.as_ref().map(WidthCounts::read).unwrap_or_default();
        let row = Row::of(requests, arrivals.copied(), policy.name, be_rate, dispatcher.stats());
        Ok(Row { widths, ..row })
    }

    /// One graph, or kernel by kernel where best-effort blocks run next to each kernel.
    fn rt_commands(&self, policy: &Policy) -> Result<Arc<[Command<D>]>> {
        Ok(self.rt.network.graphs(if self.is_padded(policy) { 1 } else { usize::MAX })?)
    }

    /// Launches of a best-effort network in one graph: blocks of a graph pad nothing.
    fn be_length(&self, policy: &Policy) -> usize {
        if self.is_padded(policy) { 1 } else { self.lengths.graph(policy) }
    }

    fn is_padded(&self, policy: &Policy) -> bool {
        policy.pads && self.device.colocation() == Colocation::Padded
    }

    fn requests(
        &self,
        client: RtClient<D>,
        task: &Task<D>,
        arrivals: Option<&Arrivals>,
    ) -> Result<Requests> {
        match arrivals {
            Some(&Arrivals::Random { rate, seed }) => {
                let arrivals = poisson(rate, seed, self.time);
                open_loop(self.device, client, task, &arrivals, self.time, wait_until)
            }
            Some(Arrivals::Closed) => back_to_back(self.device, client, task, self.time),
            None => {
                thread::sleep(self.time);
                Ok(Requests::default())
            }
        }
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
