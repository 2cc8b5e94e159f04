//! Best-effort work, and whether it was done exactly once.

use super::inferences::{IMAGES, Inferences};
use crate::report::time;
use crate::workload::calibrate::{Calibration, cells};
use crate::workload::networks::NamedNetwork;
use anyhow::Result;
use reef::op::Operators;
use reef::scheduler::Streams;
use reef::{
    ClientConfig, Command, Dispatcher, Launch, Priority, Seq, Stopwatch, Submitter,
    testing::{Cells, appended},
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tasks of cells have this many values in turn, so that order shows.
const VALUES: u64 = 61;
/// Launches between two events, if they don't take too long.
const TIMED: u32 = 32;
/// About how long launches between two events take at most.
const MAX_TIMED: Duration = Duration::from_millis(150);
/// Times each is timed; the least counts.
const REPEATS: usize = 5;

/// Work that a client submits again and again.
pub(crate) struct Load<D: Operators> {
    pub(crate) name: String,
    /// Commands of a task, in turn.
    tasks: Vec<Arc<[Command<D>]>>,
    effect: Effect<D>,
    /// Time of a block, if blocks are calibrated.
    pub(crate) block: Option<Duration>,
    /// Device time of a task alone: on a queue without a preemptor, and on one with.
    pub(crate) alone: [Duration; 2],
}

/// Memory that shows the work done.
enum Effect<D: Operators> {
    Cells(Cells<D>),
    Logits(Inferences<D>),
}

impl<D: Operators> Load<D> {
    /// Kernels with blocks that take `time`.
    pub(crate) fn blocks(device: &D, calibration: &Calibration, time: Duration) -> Result<Self> {
        let (rounds, block) = calibration.rounds(device, time)?;
        let cells = cells(device)?;
        let launches: Vec<_> = (1..=VALUES).map(|value| cells.launch(value, rounds)).collect();
        let alone = time_alone(device, &launches[..1])?;
        let tasks = launches.into_iter().map(|launch| [Command::Launch(launch)].into()).collect();
        let name = format!("{} blocks", time::show(time));
        Ok(Self { name, tasks, effect: Effect::Cells(cells), block: Some(block), alone })
    }

    /// Inferences of a network on two images in turn; what each gives at first is what it must
    /// give.
    pub(crate) fn network(
        device: &D,
        NamedNetwork { name, network }: NamedNetwork<D>,
        graph: usize,
    ) -> Result<Self> {
        let dispatcher = Dispatcher::start(device, Streams)?;
        let mut client = dispatcher.best_effort(ClientConfig::default())?;
        let (inferences, tasks) =
            Inferences::new(device, &network, graph, |commands| Ok(client.run(commands)?))?;
        let launches: Vec<_> = network.launches().cloned().collect();
        let alone = time_alone(device, &launches)?;
        Ok(Self { name, tasks, effect: Effect::Logits(inferences), block: None, alone })
    }

    /// Time on a queue with a preemptor ÷ time on a queue without one.
    pub(crate) fn guarded(&self) -> f64 {
        self.alone[1].as_secs_f64() / self.alone[0].as_secs_f64()
    }

    /// Forgets what was done.
    pub(crate) fn reset(&self) -> Result<()> {
        match &self.effect {
            Effect::Cells(cells) => Ok(cells.clear()?),
            Effect::Logits(inferences) => inferences.clear(),
        }
    }

    /// Returns whether the first `tasks` tasks since [`reset`](Self::reset) were each done once, in
    /// order.
    fn is_done_once(&self, tasks: u64) -> Result<bool> {
        match &self.effect {
            Effect::Cells(cells) => {
                let want = appended((0..tasks).map(|task| task % VALUES + 1));
                Ok(cells.read()?.iter().all(|&cell| cell == want))
            }
            Effect::Logits(_) => Ok(true), // each was looked at when it had finished
        }
    }

    /// Returns whether the task with this number, which has finished, gave the expected output.
    /// Cells are checked at the end instead.
    fn is_right(&self, task: u64) -> Result<bool> {
        match &self.effect {
            Effect::Cells(_) => Ok(true),
            Effect::Logits(inferences) => inferences.take_right(task as usize % IMAGES),
        }
    }
}

/// Device time of `launches`, each time once: without a preemptor and with the deepest.
fn time_alone<D: Operators>(device: &D, launches: &[Launch<D>]) -> Result<[Duration; 2]> {
    let preemptor = device.preemptor(device.info().level)?;
    let mut plain = Stopwatch::new(device, device.queue(Priority::BestEffort, None)?)?;
    let mut guarded =
        Stopwatch::new(device, device.queue(Priority::BestEffort, Some(&preemptor))?)?;
    let once = plain.time(launches)?.max(Duration::from_nanos(1));
    let times = ((MAX_TIMED.as_nanos() / once.as_nanos()) as u32).clamp(1, TIMED);
    let times = if launches.len() == 1 { times } else { 1 };
    let many = || (0..times).flat_map(|_| launches);
    let mut least = [Duration::MAX; 2];
    for _ in 0..REPEATS {
        // Side by side, so that a clock that drifts counts for both.
        least[0] = least[0].min(plain.time(many())? / times);
        least[1] = least[1].min(guarded.time(many())? / times);
    }
    Ok(least)
}

/// Keeps a queue filled with tasks of a load.
pub(crate) struct Feeder<'a, D: Operators> {
    load: &'a Load<D>,
    queued: usize,
    /// Positions of the last commands of tasks that have not been seen to finish.
    ends: VecDeque<Seq>,
    tasks: u64,
    /// Tasks that were seen to finish.
    finished: u64,
    right: bool,
}

impl<'a, D: Operators> Feeder<'a, D> {
    /// With `queued` tasks that have not finished.
    pub(crate) fn new(load: &'a Load<D>, queued: u64) -> Result<Self> {
        load.reset()?;
        let queued = queued as usize;
        Ok(Self { load, queued, ends: VecDeque::new(), tasks: 0, finished: 0, right: true })
    }

    fn note_finished(&mut self, completed: Seq) -> Result<()> {
        while self.ends.pop_front_if(|end| *end < completed).is_some() {
            self.right &= self.load.is_right(self.finished)?;
            self.finished += 1;
        }
        Ok(())
    }

    /// Submits what is missing.
    pub(crate) fn top_up(&mut self, submitter: &mut Submitter<D>) -> Result<()> {
        self.note_finished(submitter.completed())?;
        while self.ends.len() < self.queued {
            let task = &self.load.tasks[self.tasks as usize % self.load.tasks.len()];
            let mut end = Seq(0);
            for command in &**task {
                end = submitter.submit_blocking(command.clone())?;
            }
            self.ends.push_back(end);
            self.tasks += 1;
        }
        Ok(())
    }

    /// Submits what is missing, for as long as `time`.
    pub(crate) fn keep_full(&mut self, submitter: &mut Submitter<D>, time: Duration) -> Result<()> {
        let begin = Instant::now();
        loop {
            self.top_up(submitter)?;
            let left = time.saturating_sub(begin.elapsed());
            match self.ends.front() {
                Some(&oldest) if !left.is_zero() => {
                    submitter.wait_timeout(oldest, left).transpose()?
                }
                _ => return Ok(()),
            };
        }
    }

    /// Waits for all tasks; returns how many there were and whether each was done once.
    pub(crate) fn finish(mut self, submitter: &Submitter<D>) -> Result<(u64, bool)> {
        if let Some(&last) = self.ends.back() {
            submitter.wait(last)?;
        }
        self.note_finished(submitter.completed())?;
        Ok((self.tasks, self.right && self.load.is_done_once(self.tasks)?))
    }
}
