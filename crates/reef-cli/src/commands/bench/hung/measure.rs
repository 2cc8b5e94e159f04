//! Best-effort clients in closed loops and real-time tasks at intervals, with and without a kernel
//! that takes longer than the measurement.
//!
//! Blocks are not stopped while they run (level DeviceQueue), so a block of that kernel is deaf on
//! every device.

use super::args::Args;
use crate::workload::clock::{histogram, note};
use anyhow::{Context, Result, anyhow, bail};
use hdrhistogram::Histogram;
use reef::scheduler::Reef;
use reef::{
    BeClient, ClientConfig, Command, Device, Dispatcher, Error, PreemptLevel, Seq, Task,
    queue::Config, testing::Cells,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Tasks of a client that have not finished.
const QUEUED: usize = 4;
/// Time until all clients are at work.
const WARM_UP: Duration = Duration::from_millis(200);
/// Time without a finished task after which a client checks whether the measurement is over.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Result of one measurement.
pub(crate) struct Row {
    /// Number of the round, from 1.
    pub(crate) round: u32,
    /// A kernel that doesn't end ran next to them.
    pub(crate) is_hung: bool,
    /// Best-effort tasks per second, of all clients.
    pub(crate) tasks: f64,
    /// Tasks per second without that kernel, in the same round.
    pub(crate) alone: Option<f64>,
    /// Time from the end of a real-time task until each client has finished something, in
    /// nanoseconds.
    pub(crate) resume: Histogram<u64>,
    /// Time from a real-time task's submission until its end, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// Time from the submission of the kernel that doesn't end until its client gets an error.
    pub(crate) error_after: Option<Duration>,
}

/// The device, and how long kernels are on it.
pub(crate) struct Bench<'a, D: Device> {
    pub(crate) device: &'a D,
    pub(crate) args: &'a Args,
    /// Rounds of blocks of best-effort clients, of the real-time task, and of the kernel that
    /// doesn't end.
    pub(crate) rounds: [u64; 3],
}

/// Times that the threads measured, on the device's clock.
struct ThreadTimes {
    /// When tasks finished, for each client.
    finished: Vec<Vec<Duration>>,
    /// When real-time tasks ended.
    ends: Vec<Duration>,
    latency: Histogram<u64>,
}

impl<D: Device> Bench<'_, D> {
    /// One measurement, with or without a kernel that doesn't end.
    pub(crate) fn measure(&self, round: u32, is_hung: bool) -> Result<Row> {
        let level = self.device.info().level.min(PreemptLevel::DeviceQueue);
        let scheduler = Reef::without_padding().level(level);
        let dispatcher = Dispatcher::start(self.device, scheduler)?;
        let hung = is_hung.then(|| self.hang(&dispatcher)).transpose()?;
        let clients: Vec<_> =
            (0..self.args.clients).map(|_| self.client(&dispatcher)).collect::<Result<_>>()?;
        let seen = self.run(&dispatcher, clients)?;
        let error_after = hung.map(|hung| hung.end(self.args.timeout)).transpose()?;
        let tasks = seen.finished.iter().map(Vec::len).sum::<usize>();
        Ok(Row {
            round,
            is_hung,
            tasks: tasks as f64 / self.args.time.as_secs_f64(),
            alone: None,
            resume: seen.resumed(),
            latency: seen.latency,
            error_after,
        })
    }

    fn client(&self, dispatcher: &Dispatcher<D>) -> Result<(BeClient<D>, Command<D>)> {
        let client = dispatcher.best_effort(ClientConfig::default())?;
        let cells = Cells::new(self.device, self.device.info().units)?;
        Ok((client, cells.append(1, self.rounds[0])))
    }

    fn hang(&self, dispatcher: &Dispatcher<D>) -> Result<Hung<D>> {
        let queue = Config::default().drain_timeout(self.args.timeout);
        let mut client = dispatcher.best_effort(ClientConfig::default().queue(queue))?;
        let cells = Cells::on_host(self.device, 1)?;
        client.submit(&[cells.append(1, self.rounds[2]), cells.append(2, 0)])?;
        let since = Instant::now();
        let watch = thread::spawn(move || {
            let how = client.wait(Seq(0));
            (client, how, since.elapsed())
        });
        thread::sleep(WARM_UP); // it runs
        Ok(Hung { cells, watch })
    }

    fn run(
        &self,
        dispatcher: &Dispatcher<D>,
        clients: Vec<(BeClient<D>, Command<D>)>,
    ) -> Result<ThreadTimes> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let threads: Vec<_> = clients
                .into_iter()
                .map(|(client, command)| scope.spawn(|| self.loop_over(client, command, &is_over)))
                .collect();
            thread::sleep(WARM_UP);
            let begin = self.device.clock();
            let seen = self.real_time(dispatcher, begin);
            let end = self.device.clock();
            is_over.store(true, Ordering::Release);
            let mut seen = seen?;
            for thread in threads {
                let mut finished = thread.join().map_err(|_| anyhow!("a client panicked"))??;
                finished.retain(|at| (begin..end).contains(at));
                seen.finished.push(finished);
            }
            Ok(seen)
        })
    }

    /// A best-effort client: notes when its tasks finish.
    fn loop_over(
        &self,
        mut client: BeClient<D>,
        command: Command<D>,
        is_over: &AtomicBool,
    ) -> Result<Vec<Duration>> {
        let mut finished = Vec::new();
        let mut last = Seq(0);
        for _ in 0..QUEUED {
            last = client.submit(std::slice::from_ref(&command))?;
        }
        while !is_over.load(Ordering::Acquire) {
            let oldest = Seq(last.0 + 1 - QUEUED as u64);
            if client.wait_timeout(oldest, POLL_INTERVAL).transpose()?.is_some() {
                finished.push(self.device.clock());
                last = client.submit(std::slice::from_ref(&command))?;
            }
        }
        Ok(finished)
    }

    fn real_time(&self, dispatcher: &Dispatcher<D>, begin: Duration) -> Result<ThreadTimes> {
        let cells = Cells::new(self.device, self.device.info().units)?;
        let task = Task::new(vec![cells.append(1, self.rounds[1])])?;
        let mut client = dispatcher.real_time()?;
        let (mut ends, mut latency) = (Vec::new(), histogram());
        while self.device.clock() < begin + self.args.time {
            let timing = client.run(&task)?;
            note(&mut latency, timing.total);
            ends.push(timing.submitted + timing.total);
            thread::sleep(self.args.pause);
        }
        Ok(ThreadTimes { finished: Vec::new(), ends, latency })
    }
}

impl ThreadTimes {
    /// Time from each end of a real-time task until each client has finished something. The last
    /// ends are left out, behind which the measurement may have ended first.
    fn resumed(&self) -> Histogram<u64> {
        let mut resume = histogram();
        for &end in &self.ends {
            let first = |finished: &Vec<Duration>| {
                finished.get(finished.partition_point(|&at| at <= end)).copied()
            };
            let all: Option<Vec<_>> = self.finished.iter().map(first).collect();
            if let Some(last) = all.and_then(|all| all.into_iter().max()) {
                note(&mut resume, last - end);
            }
        }
        resume
    }
}

/// The client whose kernel doesn't end for the time of the measurement.
struct Hung<D: Device> {
    cells: Cells<D>,
    watch: thread::JoinHandle<(BeClient<D>, reef::Result<()>, Duration)>,
}

impl<D: Device> Hung<D> {
    /// Waits until the kernel has ended after all, so that the next measurement runs without it.
    /// Returns when its client got its error.
    fn end(self, timeout: Duration) -> Result<Duration> {
        let (client, how, after) = self.watch.join().map_err(|_| anyhow!("a client panicked"))?;
        drop(client);
        match how {
            Err(Error::DeviceLost { .. }) if after >= timeout => {}
            Err(error) => return Err(error).context("the client whose kernel doesn't end"),
            Ok(()) => bail!("the kernel that doesn't end has ended after {after:?}"),
        }
        while self.cells.read()?[0] == 0 {
            thread::sleep(POLL_INTERVAL);
        }
        Ok(after)
    }
}
