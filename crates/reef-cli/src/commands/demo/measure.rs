//! Runs the clients under a scheduler and notes what they experience.

use crate::workload::clients::{BE_GRAPH, closed_loop};
use crate::workload::clock::sleep_until;
use crate::workload::networks::{NamedNetwork, Networks};
use crate::workload::requests::{Requests, open_loop};
use crate::workload::throughput::{BeThroughput, kept_share};
use anyhow::{Result, anyhow};
use reef::op::Operators;
use reef::scheduler::{Reef, Scheduler};
use reef::{ClientConfig, Command, Dispatcher, RtClient, Span, Stats, Task, queue::Config};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Share of the device that real-time requests ask for, if it were theirs alone.
const RT_LOAD: f64 = 0.25;
/// Requests that tell how long one takes alone.
const ALONE: usize = 10;
/// Traced part of a measurement.
const TRACED: Duration = Duration::from_millis(300);

/// The clients, the device, and how long to measure.
pub(crate) struct Bench<'a, D: Operators> {
    device: &'a D,
    pub(crate) rt: NamedNetwork<D>,
    pub(crate) be: Vec<NamedNetwork<D>>,
    /// Time of one best-effort inference of each network alone.
    be_times: Vec<Duration>,
    time: Duration,
    /// Time from one real-time request to the next.
    pub(crate) period: Duration,
    spans: Vec<Span>,
}

/// Result of one measurement.
pub(crate) struct Outcome {
    pub(crate) requests: Requests,
    /// Best-effort inferences per second, of each client.
    pub(crate) be_rates: Vec<f64>,
    pub(crate) stats: Stats,
}

impl<'a, D: Operators> Bench<'a, D> {
    /// Profiles the networks and finds the rate of real-time requests.
    pub(crate) fn new(device: &'a D, networks: Networks<D>, time: Duration) -> Result<Self> {
        let Networks { rt, be } = networks.profiled(device)?;
        let period = time_alone(device, &rt)?.div_f64(RT_LOAD);
        let be_times = be.iter().map(|named| time_alone(device, named)).collect::<Result<_>>()?;
        Ok(Self { device, rt, be, be_times, time, period, spans: Vec::new() })
    }

    /// Best-effort work done in `outcome` ÷ that in `alone`; see [`kept`].
    pub(crate) fn be_kept(&self, outcome: &Outcome, alone: &Outcome) -> Option<f64> {
        let rates = outcome.be_rates.iter().zip(&alone.be_rates).zip(&self.be_times);
        let clients = rates.map(|((&rate, &alone), &time)| BeThroughput { rate, alone, time });
        kept_share(&clients.collect::<Vec<_>>())
    }

    /// Blocks on each unit at the end of the measurement named `reef`.
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
            let requests = if rt {
                self.real_time(dispatcher.real_time()?, traced)
            } else {
                thread::sleep(self.time);
                Ok(Requests::default())
            };
            self.device.set_trace(false);
            stop.store(true, Ordering::Release);
            let joined =
                clients.into_iter().map(|c| c.join().map_err(|_| anyhow!("a client panicked")));
            let be_rates = joined.map(|rate| rate?).collect::<Result<_>>()?;
            Ok::<_, anyhow::Error>(Outcome {
                requests: requests?,
                be_rates,
                stats: Stats::default(),
            })
        })?;
        outcome.stats = dispatcher.stats();
        if traced {
            self.spans = self.device.take_trace();
        }
        Ok(outcome)
    }
}

impl<D: Operators> Bench<'_, D> {
    /// A request each period, whatever became of those before.
    fn real_time(&self, client: RtClient<D>, traced: bool) -> Result<Requests> {
        let task = Task::new(self.rt.network.graphs(usize::MAX)?)?;
        let requests = (0..).map(|k| self.period * k);
        let arrivals: Vec<_> = requests.take_while(|&at| at < self.time).collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(self.time.saturating_sub(TRACED));
                self.device.set_trace(traced);
            });
            open_loop(self.device, client, &task, &arrivals, self.time, sleep_until)
        })
    }
}

fn client<D: Operators>(commands: &[Command<D>]) -> ClientConfig {
    ClientConfig::default().queue(Config::default().window_for(commands))
}

/// Time of an inference on an idle device: the median of some.
fn time_alone<D: Operators>(device: &D, named: &NamedNetwork<D>) -> Result<Duration> {
    let dispatcher = Dispatcher::start(device, Reef::default())?;
    let mut client = dispatcher.real_time()?;
    let task = Task::new(named.network.graphs(usize::MAX)?)?;
    let mut times = (0..ALONE)
        .map(|_| client.run(&task).map(|timing| timing.total))
        .collect::<Result<Vec<_>, _>>()?;
    times.sort();
    Ok(times[ALONE / 2])
}
