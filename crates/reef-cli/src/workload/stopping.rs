//! Inferences that stop when a time has come or a signal, to be finished by another process.

use crate::report::time;
use crate::report::usage::Usage;
use anyhow::{Context, Result};
use reef::{Command, Device, Parked, PreemptLevel, VirtualQueue, queue::Config};
use reef_files::Created;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Interval at which a signal is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

#[derive(clap::Args, Clone, Default)]
pub(crate) struct StopArgs {
    /// Folder for a snapshot: Ctrl-C, SIGTERM or --after stop the run, and `reef restore DIR`
    /// finishes it.
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Time from the first inference on after which it stops, such as 500ms.
    #[arg(long, value_name = "TIME", value_parser = time::parse, requires = "checkpoint")]
    pub(crate) after: Option<Duration>,
    /// Stop between two images: the snapshot fits other devices of the same backend too.
    #[arg(long, requires = "checkpoint")]
    pub(crate) drain: bool,
}

/// Reasons to stop, and the folder of the snapshot. Without a folder nothing stops.
pub(crate) struct Stop {
    pub(crate) folder: Option<PathBuf>,
    after: Option<Duration>,
    /// Beginning of the first inference, from which the time counts.
    begun: OnceLock<Instant>,
    told: Arc<AtomicBool>,
    drain: bool,
}

/// End of a queue's run.
pub(crate) enum RunEnd<D: Device> {
    /// All commands have finished.
    Finished,
    /// It was stopped.
    Parked(Parked<D>),
}

/// Refuses a folder that takes no files: what has run by then would be lost. A folder that is made
/// for this goes again.
fn check(folder: &Path) -> Result<(), Usage> {
    let mut made = Created::default();
    let taken =
        made.folder(folder).and_then(|()| reef_files::replaceable(folder.join(".reef-check")));
    taken.map_err(|why| Usage(format!("--checkpoint {}: {why}", folder.display())))
}

impl Stop {
    /// Begins to listen to signals, if there is a folder.
    pub(crate) fn begin(args: &StopArgs) -> Result<Self> {
        let told = Arc::new(AtomicBool::new(false));
        if let Some(folder) = &args.checkpoint {
            if folder.exists() && !folder.is_dir() {
                let text = format!("--checkpoint {}: must be a folder", folder.display());
                return Err(Usage(text).into());
            }
            check(folder)?;
            for signal in [SIGINT, SIGTERM] {
                signal_hook::flag::register(signal, told.clone()).context("signals")?;
            }
        }
        let (folder, begun) = (args.checkpoint.clone(), OnceLock::new());
        Ok(Self { folder, after: args.after, begun, told, drain: args.drain })
    }

    /// Returns whether the run is to stop.
    pub(crate) fn is_due(&self) -> bool {
        let is_late = self.time_left().is_some_and(|left| left.is_zero());
        self.folder.is_some() && (is_late || self.told.load(Ordering::Relaxed))
    }

    /// Time of the run that is left, if it has a limit and has begun.
    fn time_left(&self) -> Option<Duration> {
        let (after, begun) = self.after.zip(self.begun.get())?;
        Some(after.saturating_sub(begun.elapsed()))
    }

    /// Time until the next poll, which comes at the end of the run's time.
    fn poll_interval(&self) -> Duration {
        match self.time_left() {
            Some(left) if !left.is_zero() && !self.drain => left.min(POLL_INTERVAL),
            _ => POLL_INTERVAL,
        }
    }

    /// Runs what is left of a queue to its end, or until it is to stop.
    pub(crate) fn run<D: Device>(&self, device: &D, left: Parked<D>) -> Result<RunEnd<D>> {
        self.begun.get_or_init(Instant::now);
        let level = if self.folder.is_some() { level(device, left.commands())? } else { None };
        let config = Config::default().level(level.unwrap_or(PreemptLevel::HostQueue));
        let config = config.capacity(left.commands().len().next_power_of_two().max(1024));
        let (submitter, queue) = VirtualQueue::enable_parked(device, config, left)?;
        let Some(last) = submitter.submitted().0.checked_sub(1).map(reef::Seq) else {
            return Ok(RunEnd::Finished);
        };
        loop {
            if self.is_due() && !self.drain {
                queue.preempt(true)?;
                let parked = queue.park(submitter).map_err(|(error, ..)| error)?;
                let is_over = parked.commands().is_empty();
                return Ok(if is_over { RunEnd::Finished } else { RunEnd::Parked(parked) });
            }
            if submitter.wait_timeout(last, self.poll_interval()).transpose()?.is_some() {
                queue.finish()?;
                return Ok(RunEnd::Finished);
            }
        }
    }
}

/// Level at which a queue is stopped to be stored. A device that can't tell which blocks of a
/// launch are left finishes what it has begun. Blocks that run are finished on every device: a run
/// that is stopped and restored again and again comes to its end.
fn level<D: Device>(device: &D, commands: &[Command<D>]) -> Result<Option<PreemptLevel>> {
    let launch = commands.iter().find_map(|command| match command {
        Command::Launch(launch) => Some(launch),
        _ => None,
    });
    let Some(launch) = launch else { return Ok(None) };
    match device.blocks(&device.checkpoint(launch)?) {
        Ok(_) => Ok(Some(device.info().level.min(PreemptLevel::DeviceQueue))),
        Err(reef::Error::Unsupported { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
