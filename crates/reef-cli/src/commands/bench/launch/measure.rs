//! Hands over commands and notes what each takes.

use crate::workload::clock::wait_awake;
use crate::workload::clock::{histogram, note};
use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use reef::{
    Command, Device, Launch, PreemptLevel, Priority, Queue, Seq, Submitter, VirtualQueue,
    queue::Config,
    testing::{Cells, appended},
};
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// Bursts that come first and don't count.
const WARM_UP: usize = 3;

/// Path of commands to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Straight to a queue of the device, with a preemptor of a level or without.
    Queue(Option<PreemptLevel>),
    /// Through a virtual queue.
    Virtual { level: PreemptLevel, window: u64 },
}

impl Way {
    /// Returns whether it differs from `plain` only in its preemption level.
    pub(crate) fn is_compared_with(self, plain: Self) -> bool {
        match (self, plain) {
            (Self::Queue(Some(_)), Self::Queue(None)) => true,
            (Self::Virtual { level, window }, Self::Virtual { level: other, window: same }) => {
                window == same && level > other && other == PreemptLevel::HostQueue
            }
            _ => false,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(None) => f.write_str("device's queue"),
            Self::Queue(Some(level)) => write!(f, "device's queue, {level}"),
            Self::Virtual { level, window } => write!(f, "virtual queue, {level}, window {window}"),
        }
    }
}

/// When a row has enough.
pub(crate) struct Limits {
    pub(crate) samples: usize,
    pub(crate) time: Duration,
    pub(crate) burst: u64,
}

/// Times measured on one path, in nanoseconds.
pub(crate) struct Row {
    pub(crate) way: Way,
    /// The call that hands a command over: its share of a burst's.
    pub(crate) call: Histogram<u64>,
    /// A command's share of a burst, from the first call until the last command is seen to be done.
    pub(crate) each: Histogram<u64>,
    /// One command on an idle queue, from the call until it is seen to be done.
    pub(crate) trip: Histogram<u64>,
    /// p50 of [`each`](Self::each) the same way without guards.
    pub(crate) plain: Option<u64>,
}

impl Row {
    pub(crate) fn each_p50(&self) -> u64 {
        self.each.value_at_quantile(0.5)
    }
}

/// Bursts and single commands, in turns; checks in the end that each ran once.
pub(crate) fn row<D: Device>(device: &D, way: Way, limits: &Limits) -> Result<Row> {
    let cells = Cells::new(device, 1)?;
    let launch = cells.launch(1, 0);
    let mut row = Row { way, call: histogram(), each: histogram(), trip: histogram(), plain: None };
    let commands = match way {
        Way::Queue(level) => {
            let preemptor = level.map(|level| device.preemptor(level)).transpose()?;
            let queue = device.queue(Priority::BestEffort, preemptor.as_ref())?;
            fill(&mut Direct { queue, launch, next: 0 }, limits, &mut row)?
        }
        Way::Virtual { level, window } => {
            let config = Config::default().level(level).window(window);
            let (submitter, queue) = VirtualQueue::enable(device, config)?;
            let command = Command::Launch(launch);
            let commands = fill(&mut Submitted { submitter, command }, limits, &mut row)?;
            queue.finish()?;
            commands
        }
    };
    let want = appended((0..commands).map(|_| 1));
    ensure!(cells.read()? == [want], "{way}: commands were lost or repeated");
    Ok(row)
}

/// Takes the row's samples; returns how many commands ran.
fn fill(line: &mut impl Line, limits: &Limits, row: &mut Row) -> Result<u64> {
    let (begin, mut commands) = (Instant::now(), 0);
    for sample in 0..WARM_UP + limits.samples {
        let [call, done] = timed(line, limits.burst)?;
        let [_, trip] = timed(line, 1)?;
        commands += limits.burst + 1;
        if sample >= WARM_UP {
            note(&mut row.call, call / limits.burst as u32);
            note(&mut row.each, done / limits.burst as u32);
            note(&mut row.trip, trip);
            if begin.elapsed() > limits.time {
                break;
            }
        }
    }
    Ok(commands)
}

/// Time of the calls, and time until all commands are done.
fn timed(line: &mut impl Line, count: u64) -> Result<[Duration; 2]> {
    let begin = Instant::now();
    for _ in 0..count {
        line.hand_over()?;
    }
    let called = begin.elapsed();
    line.wait()?;
    Ok([called, begin.elapsed()])
}

/// Takes commands.
trait Line {
    fn hand_over(&mut self) -> Result<()>;

    /// Spins until all commands are done.
    fn wait(&mut self) -> Result<()>;
}

/// A queue of the device.
struct Direct<D: Device> {
    queue: D::Queue,
    launch: Launch<D>,
    next: u64,
}

impl<D: Device> Line for Direct<D> {
    fn hand_over(&mut self) -> Result<()> {
        self.queue.launch(Seq(self.next), &self.launch, None)?;
        self.next += 1;
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        while self.queue.completed()? < Seq(self.next) {
            thread::yield_now();
        }
        Ok(())
    }
}

/// A virtual queue.
struct Submitted<D: Device> {
    submitter: Submitter<D>,
    command: Command<D>,
}

impl<D: Device> Line for Submitted<D> {
    fn hand_over(&mut self) -> Result<()> {
        self.submitter.submit_blocking(self.command.clone())?;
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        let Seq(submitted) = self.submitter.submitted();
        Ok(wait_awake(&self.submitter, Seq(submitted - 1))?)
    }
}
