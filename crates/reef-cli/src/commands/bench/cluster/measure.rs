//! A real-time and a best-effort client for each device, placed by the cluster.

use super::args::Args;
use crate::commands::bench::colocate::arrivals::poisson;
use crate::commands::bench::policy::Policy;
use crate::workload::clients::wait_or_stop;
use crate::workload::clock::wait_until;
use crate::workload::networks::instance;
use crate::workload::requests::{Requests, open_loop};
use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use reef::cluster::{BePlaced, Cluster, Demand, Node, RtPlaced};
use reef::models::{self, Network};
use reef::op::Operators;
use reef::{ClientConfig, Command, Task};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Result of one measurement.
pub(crate) struct Row {
    /// Number of the round, from 1.
    pub(crate) round: u32,
    pub(crate) devices: usize,
    /// Best-effort inferences per second of all clients, without real-time work and next to it.
    pub(crate) be_alone: f64,
    pub(crate) be_colocated: f64,
    /// Time from a request's arrival until its end, in nanoseconds, of all real-time clients.
    pub(crate) latency: Histogram<u64>,
    pub(crate) late: u64,
    pub(crate) dropped: u64,
    /// The row of one device in the same round: best-effort inferences per second alone, next to
    /// real-time work, and p99.
    pub(crate) one: Option<(f64, f64, u64)>,
}

impl Row {
    pub(crate) fn p99(&self) -> u64 {
        self.latency.value_at_quantile(0.99)
    }

    /// Figures that rows of more devices are compared with.
    pub(crate) fn figures(&self) -> (f64, f64, u64) {
        (self.be_alone, self.be_colocated, self.p99())
    }
}

type Inference<D> = (Network<D>, Arc<[Command<D>]>);
type Rt<D> = RtPlaced<D, Inference<D>, models::Error>;
type Be<D> = BePlaced<D, Inference<D>, models::Error>;

/// A cluster with its clients.
pub(crate) struct Bench<'a, D: Operators> {
    args: &'a Args,
    cluster: Cluster<D>,
    rt: Vec<Rt<D>>,
    be: Vec<Be<D>>,
}

impl<'a, D: Operators> Bench<'a, D> {
    /// Places a client of each class for each device.
    pub(crate) fn new(args: &'a Args, devices: &[D]) -> Result<Self> {
        let policy = || Policy::reef(devices[0].info().level, false);
        let cluster = Cluster::start(devices.to_vec(), || policy().scheduler)?;
        let (config, graph) = (policy().client(args.lengths.window), args.lengths.graph(&policy()));
        let build = |name: &str, graph: usize| {
            let (name, sizes) = (name.to_owned(), args.sizes.clone());
            move |node: &Node<D>| -> models::Result<Inference<D>> {
                let network = instance(node.device(), &name, &sizes)?;
                let commands = network.graphs(graph)?;
                Ok((network, commands))
            }
        };
        let (mut rt, mut be) = (Vec::new(), Vec::new());
        for _ in devices {
            let (demand, own) = (Demand::default(), ClientConfig::default());
            rt.push(cluster.real_time(demand, own, build(&args.rt, usize::MAX))?);
            be.push(cluster.best_effort(demand, config, build(&args.be, graph))?);
        }
        let bench = Self { args, cluster, rt, be };
        bench.check_places()?;
        Ok(bench)
    }

    /// Each device has one client of each class, or the figures mean nothing.
    fn check_places(&self) -> Result<()> {
        let all = self.cluster.nodes().len();
        let rt: BTreeSet<_> = self.rt.iter().map(|client| client.node().index()).collect();
        let be: BTreeSet<_> = self.be.iter().map(|client| client.node().index()).collect();
        if rt.len() == all && be.len() == all {
            return Ok(());
        }
        Err(anyhow!("clients of {all} devices are on {rt:?} and {be:?}"))
    }

    /// Measures best-effort work alone, then next to real-time work.
    pub(crate) fn measure(&mut self, round: u32) -> Result<Row> {
        let (be_alone, _) = self.run(false)?;
        let (be_colocated, all) = self.run(true)?;
        let mut row = Row {
            round,
            devices: self.rt.len(),
            be_alone,
            be_colocated,
            latency: Requests::default().latency,
            late: 0,
            dropped: 0,
            one: None,
        };
        for requests in all {
            row.latency += requests.latency;
            row.late += requests.late;
            row.dropped += requests.dropped;
        }
        Ok(row)
    }

    /// Best-effort inferences per second, and what real-time clients experienced.
    fn run(&mut self, real_time: bool) -> Result<(f64, Vec<Requests>)> {
        let (args, stop) = (self.args, &AtomicBool::new(false));
        let time = args.time;
        let (rt, be) = (&mut self.rt, &mut self.be);
        thread::scope(|scope| {
            let be: Vec<_> =
                be.iter_mut().map(|be| scope.spawn(|| closed_loop(be, stop))).collect();
            let rt = rt.iter_mut().zip(1..).filter(|_| real_time);
            let rt: Vec<_> =
                rt.map(|(rt, seed)| scope.spawn(move || requests(args, rt, seed, time))).collect();
            if !real_time {
                thread::sleep(time);
            }
            let rt: Vec<_> = rt.into_iter().map(|rt| rt.join()).collect();
            stop.store(true, Ordering::Release);
            let panicked = |_| anyhow!("a client panicked");
            let mut rate = 0.0;
            for be in be {
                rate += be.join().map_err(panicked)??;
            }
            let rt = rt.into_iter().map(|rt| rt.map_err(panicked)?).collect::<Result<_>>()?;
            Ok((rate, rt))
        })
    }
}

fn requests<D: Operators>(
    args: &Args,
    rt: &mut Rt<D>,
    seed: u64,
    time: Duration,
) -> Result<Requests> {
    let device = rt.node().device().clone();
    let (client, (_, commands)) = rt.parts()?;
    let task = Task::new(commands.clone())?;
    let arrivals = poisson(args.rate, args.common.seed.wrapping_add(seed), time);
    open_loop(&device, client.clone(), &task, &arrivals, time, wait_until)
}

/// Inferences back to back until told to stop: how many per second.
fn closed_loop<D: Operators>(be: &mut Be<D>, stop: &AtomicBool) -> Result<f64> {
    let (client, (_, commands)) = be.parts()?;
    let before = client.submitter().completed().0;
    let begin = Instant::now();
    while !stop.load(Ordering::Acquire) {
        let last = client.submit(commands)?;
        if !wait_or_stop(client, last, stop)? {
            break;
        }
    }
    let done = (client.submitter().completed().0 - before) as f64 / commands.len() as f64;
    let rate = done / begin.elapsed().as_secs_f64();
    let submitted = client.submitter().submitted().0;
    if submitted > 0 {
        client.wait(reef::Seq(submitted - 1))?; // the next measurement begins with an empty queue
    }
    Ok(rate)
}
