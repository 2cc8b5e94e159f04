//! One row: a real-time client next to a best-effort one.

use super::bare::Bare;
use super::load::{Feeder, Load};
use super::pace::Limits;
use super::preempt_restore::{PreemptRestore, preempt_restore};
use crate::commands::bench::policy::Policy;
use crate::workload::clock::{histogram, note};
use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use reef::op::Operators;
use reef::scheduler::Reef;
use reef::{
    BeClient, Dispatcher, RtClient, Task,
    testing::{Cells, appended},
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Requests that come first and don't count.
const WARM_UP: usize = 3;

/// Time between two checks of the best-effort client whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// One row that is to be measured.
pub(crate) struct Case {
    /// Index of the load.
    pub(crate) load: usize,
    /// Tasks that the client keeps submitted.
    pub(crate) queued: u64,
    /// Window for policies that leave it open.
    pub(crate) window: u64,
    pub(crate) policy: Policy,
}

/// Times measured under one policy, in nanoseconds.
pub(crate) struct Row {
    pub(crate) load: String,
    pub(crate) policy: String,
    pub(crate) queued: Option<u64>,
    pub(crate) window: Option<u64>,
    /// Time from submission until the device could start the kernel.
    pub(crate) start: Histogram<u64>,
    /// Time from submission until its only block has run.
    pub(crate) ran: Histogram<u64>,
    /// Time from submission until the dispatcher has seen that; of a bare launch, until the host
    /// has.
    pub(crate) seen: Histogram<u64>,
    /// [`ran`](Self::ran) on the idle device: p50 and p99.
    pub(crate) idle: [u64; 2],
    /// [`seen`](Self::seen) of a bare launch: p50.
    pub(crate) bare: u64,
    pub(crate) preemptions: u64,
    /// Levels alone: how long preempt and restore take.
    pub(crate) preempt_restore: Option<PreemptRestore>,
    /// Best-effort tasks that were done.
    pub(crate) tasks: u64,
    /// Each task was done once; `None` on an idle device.
    pub(crate) right: Option<bool>,
}

impl Row {
    pub(super) fn new(load: &str, policy: &str) -> Self {
        Self {
            load: load.into(),
            policy: policy.into(),
            queued: None,
            window: None,
            start: histogram(),
            ran: histogram(),
            seen: histogram(),
            idle: [0; 2],
            bare: 0,
            preemptions: 0,
            preempt_restore: None,
            tasks: 0,
            right: None,
        }
    }

    /// Adds what another round has measured.
    ///
    /// # Errors
    ///
    /// Times that no histogram holds.
    pub(crate) fn add(&mut self, other: Self) -> Result<()> {
        self.start.add(other.start)?;
        self.ran.add(other.ran)?;
        self.seen.add(other.seen)?;
        self.preemptions += other.preemptions;
        self.tasks += other.tasks;
        self.right = self.right.zip(other.right).map(|(a, b)| a && b);
        if let (Some(mine), Some(others)) = (&mut self.preempt_restore, other.preempt_restore) {
            mine.quiesced.add(others.quiesced)?;
            mine.resumed.add(others.resumed)?;
        }
        Ok(())
    }

    /// Returns whether it was measured on an idle device.
    pub(crate) fn is_idle(&self) -> bool {
        self.queued.is_none()
    }

    /// p50 and p99 of [`ran`](Self::ran).
    pub(crate) fn quantiles(&self) -> [u64; 2] {
        [0.5, 0.99].map(|q| self.ran.value_at_quantile(q))
    }
}

/// Bare launches and requests, in turns, on a device without other work.
pub(crate) fn idle<D: Operators>(
    device: &D,
    [bare, idle]: [&str; 2],
    limits: &Limits,
) -> Result<[Row; 2]> {
    let scheduler = Reef::without_padding().level(device.info().level);
    let dispatcher = Dispatcher::start(device, scheduler)?;
    let [mut bare, mut idle] = [bare, idle].map(|name| Row::new(name, "–"));
    let mut launch = Bare::new(device)?;
    let between = |pause, counts| {
        let time = launch.launch()?;
        limits.rest(pause);
        if counts {
            note(&mut bare.seen, time);
        }
        Ok(())
    };
    requests(device, dispatcher.real_time()?, limits, &mut idle, between)?;
    Ok([bare, idle])
}

/// Requests next to `load`; then, for a level, the time of preempt and restore.
pub(crate) fn row<D: Operators>(
    device: &D,
    load: &Load<D>,
    case: Case,
    limits: &Limits,
) -> Result<Row> {
    let Case { queued, window, policy, .. } = case;
    let level = policy.level;
    let config = policy.client(window);
    let mut row = Row::new(&load.name, &policy.name);
    (row.queued, row.window) = (Some(queued), Some(config.queue.window));
    let dispatcher = Dispatcher::start(device, policy.scheduler)?;
    let mut background = dispatcher.best_effort(config)?;
    let (full, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let (tasks, right) = thread::scope(|scope| {
        let filling = scope.spawn(|| fill(&mut background, load, queued, &full, &stop));
        while !full.load(Ordering::Acquire) && !filling.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        let nothing = |_, _| Ok(());
        let requests = requests(device, dispatcher.real_time()?, limits, &mut row, nothing);
        stop.store(true, Ordering::Release);
        let filled = filling.join().map_err(|_| anyhow!("the best-effort client panicked"))?;
        requests?;
        filled
    })?;
    row.preemptions = dispatcher.stats().preemptions;
    (row.tasks, row.right) = (tasks, Some(right));
    drop(background);
    drop(dispatcher);
    if level.is_some() {
        let measured = preempt_restore(device, load, config.queue, queued, limits)?;
        row.right = Some(right && measured.right);
        row.preempt_restore = Some(measured);
    }
    Ok(row)
}

/// Keeps the best-effort queue full until told to stop; then finishes and checks.
fn fill<D: Operators>(
    client: &mut BeClient<D>,
    load: &Load<D>,
    queued: u64,
    full: &AtomicBool,
    stop: &AtomicBool,
) -> Result<(u64, bool)> {
    let mut feeder = Feeder::new(load, queued)?;
    while !stop.load(Ordering::Acquire) {
        feeder.top_up(client.submitter())?;
        full.store(true, Ordering::Release);
        feeder.keep_full(client.submitter(), POLL_INTERVAL)?;
    }
    feeder.finish(client.submitter())
}

/// Submits the kernel now and then, and does something in front; checks in the end that each ran
/// once.
fn requests<D: Operators>(
    device: &D,
    mut client: RtClient<D>,
    limits: &Limits,
    row: &mut Row,
    mut before: impl FnMut(Duration, bool) -> Result<()>,
) -> Result<()> {
    let cells = Cells::new(device, 1)?;
    let task = Task::new([cells.append(1, 0)])?;
    let begin = Instant::now();
    let mut runs = 0;
    for pause in limits.pauses().take(WARM_UP + limits.samples) {
        limits.rest(pause);
        before(pause, runs >= WARM_UP)?;
        let timing = client.run(&task)?;
        runs += 1;
        if runs > WARM_UP {
            note(&mut row.start, timing.delay);
            note(&mut row.ran, timing.delay + timing.device);
            note(&mut row.seen, timing.total);
        }
        if runs > WARM_UP && begin.elapsed() > limits.time {
            break;
        }
    }
    anyhow::ensure!(
        cells.read()? == [appended(std::iter::repeat_n(1, runs))],
        "real-time work was lost or repeated"
    );
    Ok(())
}
