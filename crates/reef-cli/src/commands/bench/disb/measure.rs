//! Runs a workload as DISB does: warm-up, each task alone, then all together, a thread for each.

use super::client::{Client, Work};
use super::config::{Task, Workload};
use super::requests::{Phases, Requests};
use super::task_loop::{Launch, Mailbox, TaskLoop};
use crate::commands::bench::policy::Policy;
use crate::workload::clients::BE_GRAPH;
use anyhow::{Result, anyhow};
use reef::op::Operators;
use reef::{ClientConfig, Colocation, Command, Dispatcher, Stats, queue::Config};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, SystemTime};

/// Between tasks that are measured alone.
pub(crate) const REST: Duration = Duration::from_millis(100);

/// A workload with its networks on a device.
pub(crate) struct Bench<'a, D: Operators> {
    pub(crate) device: &'a D,
    pub(crate) workload: &'a Workload,
    /// Work of each task.
    pub(crate) works: Vec<Work<D>>,
    pub(crate) options: Options,
}

/// Options that are not in the workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) time: Duration,
    /// Time from the start of threads until the first request.
    pub(crate) lead: Duration,
    pub(crate) warm_ups: u32,
    pub(crate) alone: u32,
    /// Hardware queue length of best-effort tasks; without one it is chosen.
    pub(crate) window: Option<u64>,
    pub(crate) seed: u64,
}

/// Tasks that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskSet {
    All,
    RealTime,
    BestEffort,
}

impl TaskSet {
    pub(crate) fn has(self, task: &Task) -> bool {
        match self {
            Self::All => true,
            Self::RealTime => task.real_time,
            Self::BestEffort => !task.real_time,
        }
    }
}

/// Results under one scheduler.
pub(crate) struct Run {
    /// Name of the scheduler, or of what it stands for.
    pub(crate) policy: String,
    pub(crate) begun: SystemTime,
    /// Requests of each task; `None` if it didn't run.
    pub(crate) requests: Vec<Option<Requests>>,
    pub(crate) stats: Stats,
}

/// All tasks, run together.
struct Stage<'a, D: Operators> {
    bench: &'a Bench<'a, D>,
    /// When the first requests are due, on the device's clock.
    begin: Duration,
    delays: &'a [Duration],
    /// Mailbox of each task that depends on others.
    mail: BTreeMap<usize, Mailbox>,
}

impl<D: Operators> Bench<'_, D> {
    /// Warms up and measures each task alone, under `policy`: the mean of its phases.
    pub(crate) fn measure_alone(
        &self,
        policy: Policy,
        begins: impl Fn(&str),
    ) -> Result<Vec<Phases>> {
        let assignments = Assignments::new(self, policy)?;
        for (k, task) in self.workload.tasks.iter().enumerate() {
            begins(&format!("warming up {}", task.id));
            let mut client = assignments.client(k)?;
            for _ in 0..self.options.warm_ups {
                client.request(Duration::MAX)?;
            }
        }
        let mut all = Vec::new();
        for (k, task) in self.workload.tasks.iter().enumerate() {
            begins(&format!("{} alone", task.id));
            thread::sleep(REST);
            let mut client = assignments.client(k)?;
            let mut requests = Requests::default();
            for _ in 0..self.options.alone {
                client
                    .request(Duration::MAX)?
                    .iter()
                    .for_each(|phases| requests.note(phases, Duration::ZERO));
            }
            all.push(requests.mean());
        }
        Ok(all)
    }

    /// Runs the tasks together; `alone` is the result of [`measure_alone`](Self::measure_alone).
    pub(crate) fn run(
        &self,
        policy: Policy,
        name: &str,
        tasks_to_run: TaskSet,
        alone: &[Phases],
    ) -> Result<Run> {
        let delays = self.workload.delays(alone);
        let assignments = Assignments::new(self, policy)?;
        let clients = self
            .workload
            .tasks
            .iter()
            .enumerate()
            .map(|(k, task)| tasks_to_run.has(task).then(|| assignments.client(k)).transpose());
        let clients = clients.collect::<Result<Vec<_>>>()?;
        let begun = SystemTime::now() + self.options.lead;
        let stage = Stage {
            bench: self,
            begin: self.device.clock() + self.options.lead,
            delays: &delays,
            mail: self.mail(),
        };
        let requests = stage.play(clients)?;
        let stats = assignments.dispatcher.stats();
        Ok(Run { policy: name.into(), begun, requests, stats })
    }

    fn mail(&self) -> BTreeMap<usize, Mailbox> {
        let tasks = self.workload.tasks.iter().enumerate();
        let wanted =
            |(k, task): (usize, &Task)| Some((k, Mailbox::new(task.load.dependency_count()?)));
        tasks.filter_map(wanted).collect()
    }
}

/// Context in which clients start.
struct Assignments<'a, D: Operators> {
    bench: &'a Bench<'a, D>,
    dispatcher: Dispatcher<D>,
    /// Configuration of best-effort clients, unless the length of their queues is chosen by their
    /// commands.
    config: ClientConfig,
    /// Commands of a real-time task that are handed over at once, and of a best-effort one.
    graphs: [usize; 2],
}

impl<'a, D: Operators> Assignments<'a, D> {
    fn new(bench: &'a Bench<'a, D>, policy: Policy) -> Result<Self> {
        let one_by_one = policy.pads && bench.device.colocation() == Colocation::Padded;
        let config = policy.client(bench.options.window.unwrap_or(Config::default().window));
        let dispatcher = Dispatcher::start(bench.device, policy.scheduler)?;
        let graphs = if one_by_one { [1, 1] } else { [usize::MAX, BE_GRAPH] };
        Ok(Self { bench, dispatcher, config, graphs })
    }

    fn client(&self, k: usize) -> Result<Client<'a, D>> {
        let Bench { device, works, workload, options, .. } = self.bench;
        let config = |commands: &[Command<D>]| match options.window {
            Some(_) => self.config,
            None => self.config.queue(self.config.queue.window_for(commands)),
        };
        let ([rt, be], work) = (self.graphs, &works[k]);
        if workload.tasks[k].real_time {
            Client::real_time(*device, &self.dispatcher, work, rt)
        } else {
            Client::best_effort(*device, &self.dispatcher, work, be, config)
        }
    }
}

impl<D: Operators> Stage<'_, D> {
    fn play(&self, clients: Vec<Option<Client<'_, D>>>) -> Result<Vec<Option<Requests>>> {
        thread::scope(|scope| {
            let start = |(k, client): (usize, Option<_>)| {
                client.map(|client| scope.spawn(move || self.task(k, client)))
            };
            let threads: Vec<_> = clients.into_iter().enumerate().map(start).collect();
            let join = |thread: Option<thread::ScopedJoinHandle<'_, _>>| {
                let joined = thread.map(|thread| thread.join()).transpose();
                joined.map_err(|_| anyhow!("a client panicked"))?.transpose()
            };
            threads.into_iter().map(join).collect()
        })
    }

    /// The requests of task `k`.
    fn task(&self, k: usize, mut client: Client<'_, D>) -> Result<Requests> {
        let Bench { workload, options, .. } = self.bench;
        let task_loop = TaskLoop {
            load: &workload.tasks[k].load,
            delay: self.delays[k],
            time: options.time,
            seed: options.seed + k as u64,
            begin: self.begin,
            mail: self.mail.get(&k),
        };
        let dependents = workload.dependents(k);
        task_loop.play(&mut client, |number| {
            dependents.iter().for_each(|to| self.mail[to].put(number, k));
            Ok(())
        })
    }
}
