//! Real-time requests at random times, alone and while best-effort clients come and go.

use super::args::{Args, Stay};
use crate::commands::bench::colocate::arrivals::poisson;
use crate::commands::bench::policy::Policy;
use crate::workload::clock::wait_until;
use crate::workload::networks::Loader;
use crate::workload::requests::{Requests, open_loop};
use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use reef::op::Operators;
use reef::{Dispatcher, Task};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Result of one measurement.
pub(crate) struct Row {
    /// Number of the round, from 1.
    pub(crate) round: u32,
    /// Last step of the clients; `None` without clients.
    pub(crate) stay: Option<Stay>,
    /// Time from a request's arrival until its end, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    pub(crate) late: u64,
    pub(crate) dropped: u64,
    /// Clients that came and went.
    pub(crate) clients: u64,
    /// p99 without clients, in the same round, in nanoseconds.
    pub(crate) calm: Option<u64>,
}

impl Row {
    pub(crate) fn p99(&self) -> u64 {
        self.latency.value_at_quantile(0.99)
    }

    /// p99 ÷ that without clients.
    pub(crate) fn over_calm(&self) -> Option<f64> {
        self.calm.map(|calm| self.p99() as f64 / calm as f64)
    }
}

/// The real-time client's work, and what the others need.
pub(crate) struct Bench<'a, D: Operators> {
    pub(crate) device: &'a D,
    pub(crate) args: &'a Args,
    pub(crate) task: &'a Task<D>,
}

impl<D: Operators> Bench<'_, D> {
    /// Measures with clients that stay for `stay`, or without clients.
    pub(crate) fn measure(&self, round: u32, stay: Option<Stay>) -> Result<Row> {
        let policy = Policy::reef(self.device.info().level, false);
        let config = policy.client(self.args.lengths.window);
        let graph = self.args.lengths.graph(&policy);
        let visitor = Visitor { bench: self, config, graph };
        let dispatcher = Dispatcher::start(self.device, policy.scheduler)?;
        let stop = AtomicBool::new(false);
        let (requests, clients) = thread::scope(|scope| {
            let come_and_go = |stay| visitor.come_and_go(&dispatcher, stay, &stop);
            let visits = stay.map(|stay| scope.spawn(move || come_and_go(stay)));
            let requests = self.requests(&dispatcher);
            stop.store(true, Ordering::Release);
            let clients = visits.map(|visits| visits.join());
            let clients = clients.transpose().map_err(|_| anyhow!("a client panicked"))?;
            Ok::<_, anyhow::Error>((requests?, clients.transpose()?.unwrap_or(0)))
        })?;
        let Requests { latency, late, dropped, .. } = requests;
        Ok(Row { round, stay, latency, late, dropped, clients, calm: None })
    }

    fn requests(&self, dispatcher: &Dispatcher<D>) -> Result<Requests> {
        let time = self.args.sides.time;
        let arrivals = poisson(self.args.rate, self.args.common.seed, time);
        open_loop(self.device, dispatcher.real_time()?, self.task, &arrivals, time, wait_until)
    }
}

/// Clients, one after the other.
struct Visitor<'a, D: Operators> {
    bench: &'a Bench<'a, D>,
    config: reef::ClientConfig,
    graph: usize,
}

impl<D: Operators> Visitor<'_, D> {
    /// Starts `clients` clients per second until told to stop, at least one. Returns how many came.
    fn come_and_go(
        &self,
        dispatcher: &Dispatcher<D>,
        stay: Stay,
        stop: &AtomicBool,
    ) -> Result<u64> {
        let args = self.bench.args;
        let mut loader = Loader::new(self.bench.device, &args.sides.sizes);
        loader.network(&args.sides.be, None)?; // loads the weights, which all share
        let (begin, gap) = (Instant::now(), Duration::from_secs_f64(1.0 / args.clients));
        for client in 0.. {
            let due = begin + gap.saturating_mul(client);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if client > 0 && stop.load(Ordering::Acquire) {
                return Ok(client.into());
            }
            self.visit(dispatcher, &mut loader, stay)?;
        }
        unreachable!("2³² clients take years")
    }

    fn visit(
        &self,
        dispatcher: &Dispatcher<D>,
        loader: &mut Loader<'_, D>,
        stay: Stay,
    ) -> Result<()> {
        let mut client = dispatcher.best_effort(self.config)?;
        if stay == Stay::Register {
            return Ok(());
        }
        let network = loader.network(&self.bench.args.sides.be, None)?.network;
        let commands = network.graphs(self.graph)?;
        if stay == Stay::Run {
            let last = client.submit(&commands)?;
            client.wait_timeout(last, Duration::from_secs(1)).transpose()?;
        }
        Ok(())
    }
}
