//! A workload against a running daemon: each client is a process of its own, as in DISB.
//!
//! ```text
//! parent ── stdin: orders ─► `reef bench disb FILE --daemon --as-client ID` ── local path ─► daemon
//!        ◄─ stdout: news ──
//! ```
//!
//! The parent reads the workload, says when all begin, and passes results on to clients that depend on
//! them; when a client launches, it decides by itself. A client ends when its stdin does, so none
//! outlives the parent.

mod child;
mod message;
mod metrics;
mod process;

use super::client::{Phases, Requests};
use super::config::{Task, Workload};
use super::measure::{Options, REST, Run, Who};
use super::part::GRACE;
use anyhow::{Result, bail};
use message::{News, Order, Play, Seat, clock};
use process::Processes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

/// Plays one client; a parent that is this command says what.
pub(super) fn play() -> Result<()> {
    child::run()
}

/// A workload's clients, connected to a daemon.
pub(super) struct Clients<'a> {
    workload: &'a Workload,
    options: Options,
    /// Of the daemon's sockets.
    folder: PathBuf,
    processes: Processes,
}

impl<'a> Clients<'a> {
    /// Starts them and has each connect to its model, which the daemon loads if it isn't there.
    pub(super) fn connect(
        workload: &'a Workload,
        models: &BTreeMap<String, String>,
        options: Options,
        folder: &Path,
        file: &Path,
        begins: impl Fn(&str),
    ) -> Result<Self> {
        metrics::stats(folder)?; // whether there is a daemon, before there are processes
        let processes = Processes::start(workload, file)?;
        let mut clients = Self { workload, options, folder: folder.into(), processes };
        for (k, task) in workload.tasks.iter().enumerate() {
            let model = models[&task.model].clone();
            begins(&format!("loading {model} for {}", task.id));
            let (timeout, real_time) = (options.time + GRACE, task.real_time);
            let seat = Seat { model, real_time, folder: folder.into(), timeout };
            clients.ready(k, &Order::Connect(seat))?;
        }
        Ok(clients)
    }

    /// Warms up and measures each task alone: the mean of its phases.
    pub(super) fn alone(&mut self, begins: impl Fn(&str)) -> Result<Vec<Phases>> {
        let Options { warm_ups, alone, .. } = self.options;
        for (k, task) in self.workload.tasks.iter().enumerate() {
            begins(&format!("warming up {}", task.id));
            self.ready(k, &Order::WarmUp { requests: warm_ups })?;
        }
        let mut all = Vec::new();
        for (k, task) in self.workload.tasks.iter().enumerate() {
            begins(&format!("{} alone", task.id));
            thread::sleep(REST);
            match self.processes.ask(k, &Order::Alone { requests: alone })? {
                News::Alone(phases) => all.push(phases),
                news => bail!("{}: out of turn: {news:?}", task.id),
            }
        }
        Ok(all)
    }

    /// Runs the tasks in question together; `alone` is what [`alone`](Self::alone) found.
    pub(super) fn run(&mut self, name: &str, who: Who, alone: &[Phases]) -> Result<Run> {
        let before = metrics::stats(&self.folder)?;
        let begun = SystemTime::now() + self.options.lead;
        let begin = clock() + self.options.lead;
        let delays = self.workload.delays(alone);
        let tasks = self.workload.tasks.iter().enumerate();
        let players: Vec<usize> = tasks.filter(|(_, task)| who.has(task)).map(|(k, _)| k).collect();
        for &k in &players {
            self.processes.order(k, &Order::Play(self.part(k, delays[k], begin)))?;
        }
        let requests = self.listen(players.len())?;
        let stats = metrics::since(before, metrics::stats(&self.folder)?);
        Ok(Run { policy: name.into(), begun, requests, stats })
    }

    fn part(&self, k: usize, delay: Duration, begin: Duration) -> Play {
        let Options { time, seed, .. } = self.options;
        let tells = !self.workload.dependents(k).is_empty();
        let load = self.workload.tasks[k].load.clone();
        Play { load, delay, time, seed: seed + k as u64, begin, tells }
    }

    /// Passes results on until so many clients are done.
    fn listen(&mut self, players: usize) -> Result<Vec<Option<Requests>>> {
        let most = self.options.lead + self.options.time + 2 * GRACE;
        let mut requests = vec![None; self.workload.tasks.len()];
        let mut done = 0;
        while done < players {
            match self.processes.hear(Some(most))? {
                (from, News::Finished { number }) => {
                    for to in self.workload.dependents(from) {
                        self.processes.order(to, &Order::Result { number, from })?;
                    }
                }
                (k, News::Played(played)) => {
                    requests[k] = Some(played.into());
                    done += 1;
                }
                (k, news) => bail!("{}: out of turn: {news:?}", self.workload.tasks[k].id),
            }
        }
        Ok(requests)
    }

    /// Says something to client `k` and waits until it has done that.
    fn ready(&mut self, k: usize, order: &Order) -> Result<()> {
        match self.processes.ask(k, order)? {
            News::Ready => Ok(()),
            news => bail!("{}: out of turn: {news:?}", self.workload.tasks[k].id),
        }
    }
}
