//! Runs the clients under a scheduler and notes what they experience.

use crate::workload::clients::{BE_GRAPH, closed_loop};
use crate::workload::networks::{Named, Networks};
use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use reef::op::Operators;
use reef::scheduler::Scheduler;
use reef::{ClientConfig, Command, Dispatcher, RtClient, Span, Stats, Task, Timing};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Share of the device that real-time requests ask for, if it were theirs alone.
const RT_LOAD: f64 = 0.25;
/// Requests that tell how long one takes alone.
const WARM_UP: usize = 10;
/// How much of a measurement is traced.
const TRACED: Duration = Duration::from_millis(300);

/// The clients, the device, and how long to measure.
pub(crate) struct Bench<'a, D: Operators> {
    device: &'a D,
    pub(crate) rt: Named<D>,
    pub(crate) be: Vec<Named<D>>,
    time: Duration,
    /// Time from one real-time request to the next.
    pub(crate) period: Duration,
    spans: Vec<Span>,
}

/// What happened in one measurement. Histograms are in nanoseconds.
pub(crate) struct Outcome {
    /// Real-time latency, from submission to the end as the client sees it.
    pub(crate) latency: Histogram<u64>,
    /// From submission until the first real-time command could start.
    pub(crate) delay: Histogram<u64>,
    /// Best-effort inferences per second, of each client.
    pub(crate) be_rates: Vec<f64>,
    pub(crate) stats: Stats,
}

impl Outcome {
    /// Best-effort work done, relative to `alone`: the mean over clients, so that small networks
    /// count as much as large ones.
    pub(crate) fn be_kept(&self, alone: &Self) -> f64 {
        let kept = self.be_rates.iter().zip(&alone.be_rates).map(|(a, b)| a / b);
        kept.sum::<f64>() / self.be_rates.len().max(1) as f64
    }
}

impl<'a, D: Operators> Bench<'a, D> {
    /// Profiles the networks and finds the rate of real-time requests.
    pub(crate) fn new(device: &'a D, networks: Networks<D>, time: Duration) -> Result<Self> {
        let Networks { rt, be } = networks.profiled(device)?;
        let mut bench = Self { device, rt, be, time, period: Duration::ZERO, spans: Vec::new() };
        let dispatcher = Dispatcher::start(device, Box::new(reef::scheduler::Reef::default()))?;
        let mut client = dispatcher.real_time()?;
        let task = Task::new(bench.rt.network.graphs(usize::MAX)?)?;
        let mut alone = (0..WARM_UP)
            .map(|_| client.run(&task).map(|timing| timing.total))
            .collect::<Result<Vec<_>, _>>()?;
        alone.sort();
        bench.period = alone[WARM_UP / 2].div_f64(RT_LOAD);
        Ok(bench)
    }

    /// What ran on each unit at the end of the measurement named `reef`.
    pub(crate) fn trace(&self) -> &[Span] {
        &self.spans
    }

    /// Lets the clients run for a while.
    pub(crate) fn measure(&mut self, scheduler: Box<dyn Scheduler>, rt: bool) -> Result<Outcome> {
        let traced = scheduler.name() == "reef" && rt;
        let dispatcher = Dispatcher::start(self.device, scheduler)?;
        let stop = AtomicBool::new(false);
        let mut outcome = thread::scope(|scope| {
            let clients: Vec<_> = self
                .be
                .iter()
                .map(|named| {
                    scope.spawn(|| {
                        let commands = named.network.graphs(BE_GRAPH)?;
                        closed_loop(&dispatcher, client(&commands), &commands, &stop)
                    })
                })
                .collect();
            let timings = if rt {
                real_time(dispatcher.real_time()?, &self.rt, self.period, self.time, || {
                    self.device.set_trace(traced);
                })
            } else {
                thread::sleep(self.time);
                Ok(Vec::new())
            };
            self.device.set_trace(false);
            stop.store(true, Ordering::Release);
            let joined =
                clients.into_iter().map(|c| c.join().map_err(|_| anyhow!("a client panicked")));
            let be_rates = joined.map(|rate| rate?).collect::<Result<_>>();
            summary(&timings?, be_rates?)
        })?;
        outcome.stats = dispatcher.stats();
        if traced {
            self.spans = self.device.take_trace();
        }
        Ok(outcome)
    }
}

/// Graphs are many launches each: two of them keep the device busy.
fn client<D: Operators>(commands: &[Command<D>]) -> ClientConfig {
    let mut config = ClientConfig::default();
    if commands.iter().any(|command| matches!(command, Command::Graph(_))) {
        config.queue.window = 2;
    }
    config
}

/// Submits an inference each `period` for `time`; calls `near_end` when little time is left.
fn real_time<D: Operators>(
    mut client: RtClient<D>,
    named: &Named<D>,
    period: Duration,
    time: Duration,
    near_end: impl Fn(),
) -> Result<Vec<Timing>> {
    let task = Task::new(named.network.graphs(usize::MAX)?)?;
    let begin = Instant::now();
    let mut timings = Vec::new();
    let mut next = begin;
    while begin.elapsed() < time {
        if begin.elapsed() + TRACED > time {
            near_end();
        }
        timings.push(client.run(&task)?);
        next = (next + period).max(Instant::now()); // requests that were missed are not made up for
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(timings)
}

fn summary(timings: &[Timing], be_rates: Vec<f64>) -> Result<Outcome> {
    let mut outcome = Outcome {
        latency: Histogram::new(3)?,
        delay: Histogram::new(3)?,
        be_rates,
        stats: Stats::default(),
    };
    for timing in timings {
        outcome.latency.record(timing.total.as_nanos() as u64)?;
        outcome.delay.record(timing.delay.as_nanos() as u64)?;
    }
    Ok(outcome)
}
