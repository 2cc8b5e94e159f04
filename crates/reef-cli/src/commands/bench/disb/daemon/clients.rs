//! The parent's side: the clients of a workload, each a process.

use super::message::{Assignment, Order, Play, Reply, clock};
use super::process::Processes;
use crate::commands::bench::disb::config::{Task, Workload};
use crate::commands::bench::disb::measure::{Options, REST, Run, TaskSet};
use crate::commands::bench::disb::requests::{Phases, Requests};
use crate::commands::bench::disb::task_loop::GRACE;
use crate::remote::daemon::Daemon;
use crate::remote::scrape::Scrape;
use anyhow::{Context, Result, bail};
use reef::Stats;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

/// Longest time of an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A workload's clients, connected to a daemon.
pub(crate) struct Clients<'a> {
    workload: &'a Workload,
    options: Options,
    /// Folder of the daemon's sockets.
    folder: PathBuf,
    processes: Processes,
}

impl<'a> Clients<'a> {
    /// Starts them and has each connect to its model, which the daemon loads if it isn't there.
    pub(crate) fn connect(
        workload: &'a Workload,
        models: &BTreeMap<String, String>,
        options: Options,
        folder: &Path,
        file: &Path,
        begins: impl Fn(&str),
    ) -> Result<Self> {
        stats(folder)?; // whether there is a daemon, before there are processes
        let processes = Processes::start(workload, file)?;
        let mut clients = Self { workload, options, folder: folder.into(), processes };
        for (k, task) in workload.tasks.iter().enumerate() {
            let model = models[&task.model].clone();
            begins(&format!("loading {model} for {}", task.id));
            let (timeout, real_time) = (options.time + GRACE, task.real_time);
            let assignment = Assignment { model, real_time, folder: folder.into(), timeout };
            clients.ready(k, &Order::Connect(assignment))?;
        }
        Ok(clients)
    }

    /// Warms up and measures each task alone: the mean of its phases.
    pub(crate) fn measure_alone(&mut self, begins: impl Fn(&str)) -> Result<Vec<Phases>> {
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
                Reply::Alone(phases) => all.push(phases),
                reply => bail!("{}: out of turn: {reply:?}", task.id),
            }
        }
        Ok(all)
    }

    /// Runs the tasks together; `alone` is the result of [`measure_alone`](Self::measure_alone).
    pub(crate) fn run(
        &mut self,
        name: &str,
        tasks_to_run: TaskSet,
        alone: &[Phases],
    ) -> Result<Run> {
        let before = stats(&self.folder)?;
        let begun = SystemTime::now() + self.options.lead;
        let begin = clock() + self.options.lead;
        let plays = plays(self.workload, self.options, tasks_to_run, alone, begin);
        let players = plays.len();
        for (k, play) in plays {
            self.processes.order(k, &Order::Play(play))?;
        }
        let requests = self.listen(players)?;
        let stats = stats(&self.folder)?.since(before);
        Ok(Run { policy: name.into(), begun, requests, stats })
    }

    /// Passes results on until `players` clients are done.
    fn listen(&mut self, players: usize) -> Result<Vec<Option<Requests>>> {
        let most = self.options.lead + self.options.time + 2 * GRACE;
        let mut requests = vec![None; self.workload.tasks.len()];
        let mut done = 0;
        while done < players {
            match self.processes.hear(Some(most))? {
                (from, Reply::Finished { number }) => {
                    for to in self.workload.dependents(from) {
                        self.processes.order(to, &Order::Result { number, from })?;
                    }
                }
                (k, Reply::Played(played)) => {
                    requests[k] = Some(played.into());
                    done += 1;
                }
                (k, reply) => bail!("{}: out of turn: {reply:?}", self.workload.tasks[k].id),
            }
        }
        Ok(requests)
    }

    /// Sends an order to client `k` and waits until it is done.
    fn ready(&mut self, k: usize, order: &Order) -> Result<()> {
        match self.processes.ask(k, order)? {
            Reply::Ready => Ok(()),
            reply => bail!("{}: out of turn: {reply:?}", self.workload.tasks[k].id),
        }
    }
}

/// Assignment of each task that runs, with its number.
fn plays(
    workload: &Workload,
    options: Options,
    tasks_to_run: TaskSet,
    alone: &[Phases],
    begin: Duration,
) -> Vec<(usize, Play)> {
    let Options { time, seed, .. } = options;
    let tasks = workload.tasks.iter().zip(workload.delays(alone)).enumerate();
    let players = tasks.filter(|(_, (task, _))| tasks_to_run.has(task));
    let play = |(k, (task, delay)): (usize, (&Task, Duration))| {
        let tells = !workload.dependents(k).is_empty();
        (k, Play { load: task.load.clone(), delay, time, seed: seed + k as u64, begin, tells })
    };
    players.map(play).collect()
}

/// Counters of the daemon, since its start.
fn stats(folder: &Path) -> Result<Stats> {
    let text = Daemon::in_folder(Some(folder))?.get("/metrics", TIMEOUT)?;
    let scrape = Scrape::parse(&String::from_utf8_lossy(&text));
    let number = |name| {
        let value = scrape.sum(name, |_| true);
        value.map(|value| value as u64).with_context(|| format!("the daemon's metrics: no {name}"))
    };
    let mut stats = Stats::default();
    stats.preemptions = number("reef_preemptions")?;
    stats.rt_finished = number("reef_rt_finished")?;
    stats.padded_launches = number("reef_padded_launches")?;
    stats.padded_blocks = number("reef_padded_blocks")?;
    stats.retries = number("reef_retries")?;
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::disb::config::parse;

    /// Periodic loads of one frequency are spread out by what each takes alone; random ones differ.
    #[test]
    fn play_has_delay_seed_and_tells_dependents() {
        let load = |load: &str, id: &str| {
            format!(r#"{{"id": "{id}", "load": {load}, "client": {{"model_name": "m"}}}}"#)
        };
        let steady = r#"{"type": "periodic", "priority": 0, "frequency": 50}"#;
        let tasks = [
            load(steady, "a_rt"),
            load(steady, "b_be"),
            load(r#"{"type": "dependent", "prev_task_ids": ["a_rt"]}"#, "c_rt"),
            load(steady, "d_rt"),
        ];
        let text = format!(r#"{{"time": 60, "tasks": [{}]}}"#, tasks.join(", "));
        let workload = parse(&text, "W").unwrap();
        let ms = Duration::from_millis;
        let options =
            Options { time: ms(600), lead: ms(1), warm_ups: 1, alone: 1, window: Some(1), seed: 7 };
        let alone = [3, 4, 9, 5].map(|n| Phases { infer: ms(n), ..Phases::default() });
        let plays = |tasks_to_run| plays(&workload, options, tasks_to_run, &alone, ms(11));
        let all = plays(TaskSet::All);
        let told: Vec<_> =
            all.iter().map(|(k, play)| (*k, play.delay, play.seed, play.tells)).collect();
        let want = [
            (0, ms(0), 7, true),
            (1, ms(3), 8, false),
            (2, ms(0), 9, false),
            (3, ms(7), 10, false),
        ];
        assert_eq!(told, want);
        assert!(all.iter().all(|(_, play)| (play.time, play.begin) == (ms(600), ms(11))));
        let numbers =
            |tasks_to_run| plays(tasks_to_run).into_iter().map(|(k, _)| k).collect::<Vec<_>>();
        assert_eq!(numbers(TaskSet::RealTime), [0, 2, 3]);
        assert_eq!(numbers(TaskSet::BestEffort), [1]);
    }
}
