//! Operations on guests: out of the GPU's memory, and back.

use crate::error::{Error, Result};
use parking_lot::Mutex;
use reef_guest::page::Class;
use reef_guest::registry::{GuestView, Registry};
use reef_suspend::helper::{Answer, Op, Request, run};
use reef_suspend::{Records, Steps, Suspended};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Weak;
use std::time::Duration;

/// Longest time for the work of a guest to end.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// Suspends guests of one registry.
#[derive(Debug)]
pub(crate) struct Suspensions {
    registry: Weak<Registry>,
    folder: PathBuf,
    /// Serves requests of [`run`].
    program: PathBuf,
    /// Locked during an operation, which takes as long as the copies.
    operation: Mutex<()>,
    /// Never locked during an operation: a scrape of `/metrics` reads them meanwhile.
    figures: Mutex<Figures>,
}

/// Sums since the start of the daemon.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) suspensions: u64,
    pub(crate) resumes: u64,
    pub(crate) refused: u64,
    /// Seconds of each step.
    pub(crate) steps: Steps,
}

impl Figures {
    fn note_suspension(&mut self, all: &[Suspended]) {
        self.suspensions += 1;
        self.steps.lock += all.iter().map(|one| one.steps.lock).fold(0.0, f64::max);
        self.steps.checkpoint += all.iter().map(|one| one.steps.checkpoint).sum::<f64>();
    }

    fn note_return(&mut self, steps: Steps) {
        self.resumes += 1;
        self.steps.restore += steps.restore;
        self.steps.unlock += steps.unlock;
    }
}

/// Timeout in milliseconds.
fn millis(timeout: Duration) -> Result<u64> {
    if timeout > MAX_TIMEOUT || timeout.is_zero() {
        let most = MAX_TIMEOUT.as_secs();
        let text = format!("timeout must be more than 0 and at most {most} s, got {timeout:?}");
        return Err(Error::Invalid(text));
    }
    Ok(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1))
}

impl Suspensions {
    /// Records lie in `folder`; `program` is this one, `reef`.
    pub(crate) fn new(registry: Weak<Registry>, folder: PathBuf, program: PathBuf) -> Self {
        Self { registry, folder, program, operation: Mutex::default(), figures: Mutex::default() }
    }

    /// Processes that are suspended now.
    pub(crate) fn all(&self) -> Vec<Suspended> {
        Records::at(&self.folder).all()
    }

    /// Sums since the start of the daemon.
    pub(crate) fn figures(&self) -> Figures {
        *self.figures.lock()
    }

    /// Processes of this process number or of this job.
    fn find(&self, target: &str) -> Result<Vec<u32>> {
        let guests = self.guests();
        let is_meant = |guest: &&GuestView| {
            guest.who.pid.to_string() == target || (!guest.job.is_empty() && guest.job == target)
        };
        let meant: Vec<_> = guests.iter().filter(is_meant).collect();
        if meant.is_empty() {
            let text = format!("no guest {target:?}: name a process number or a job of `reef top`");
            return Err(Error::NotFound(text));
        }
        if let Some(guest) = meant.iter().find(|guest| guest.who.class == Class::RealTime) {
            let text =
                format!("process {} is real-time: only best-effort guests leave", guest.who.pid);
            return Err(Error::Invalid(text));
        }
        let pids: BTreeSet<u32> = meant.iter().map(|guest| guest.who.pid).collect();
        Ok(pids.into_iter().collect())
    }

    /// Current guests.
    pub(super) fn guests(&self) -> Vec<GuestView> {
        self.registry.upgrade().map(|registry| registry.guests()).unwrap_or_default()
    }

    /// Suspends a guest, or all of a job. Blocks.
    ///
    /// # Errors
    ///
    /// `NotFound`, `Invalid`: it is not a best-effort guest. `Unavailable`: the driver refuses; the
    /// guest runs on.
    pub(crate) fn suspend(&self, target: &str, timeout: Duration) -> Result<Vec<Suspended>> {
        let timeout_ms = millis(timeout)?;
        self.suspend_processes(self.find(target)?, Op::Suspend { timeout_ms, for_memory: false })
    }

    /// Suspends processes of guests by this operation. Blocks.
    ///
    /// # Errors
    ///
    /// `Unavailable`: the driver refuses; they run on.
    pub(super) fn suspend_processes(&self, pids: Vec<u32>, op: Op) -> Result<Vec<Suspended>> {
        let _operation = self.operation.lock();
        self.exempt(&pids, true);
        match self.run(pids.clone(), op) {
            Ok((all, _)) => {
                self.figures.lock().note_suspension(&all);
                Ok(all)
            }
            Err(error) => {
                self.figures.lock().refused += 1;
                self.exempt(&pids, false);
                Err(error)
            }
        }
    }

    /// Moves a guest, or all of a job, to the GPU that `to` names. Blocks.
    ///
    /// # Errors
    ///
    /// As [`suspend`](Self::suspend); the other GPU has too little memory: it runs where it was.
    pub(crate) fn move_to(
        &self,
        target: &str,
        timeout: Duration,
        to: String,
    ) -> Result<Vec<Suspended>> {
        let timeout_ms = millis(timeout)?;
        let pids = self.find(target)?;
        let _operation = self.operation.lock();
        self.exempt(&pids, true);
        let moved = self.run(pids.clone(), Op::Move { timeout_ms, to });
        self.exempt(&pids, false);
        let mut figures = self.figures.lock();
        match moved {
            Ok((all, steps)) => {
                figures.note_suspension(&all);
                figures.note_return(steps);
                Ok(all)
            }
            Err(error) => {
                figures.refused += 1;
                Err(error)
            }
        }
    }

    /// Brings a guest back. Blocks.
    ///
    /// # Errors
    ///
    /// As [`suspend`](Self::suspend); too little memory.
    pub(crate) fn resume(&self, target: &str) -> Result<Vec<Suspended>> {
        self.resume_processes(self.find(target)?)
    }

    /// Brings processes of guests back. Blocks.
    ///
    /// # Errors
    ///
    /// `Unavailable`: too little memory, or the driver refuses.
    pub(super) fn resume_processes(&self, pids: Vec<u32>) -> Result<Vec<Suspended>> {
        let _operation = self.operation.lock();
        match self.run(pids.clone(), Op::Resume { to: None }) {
            Ok((all, steps)) => {
                self.figures.lock().note_return(steps);
                self.exempt(&pids, false);
                Ok(all)
            }
            Err(error) => {
                self.figures.lock().refused += 1;
                Err(error)
            }
        }
    }

    fn run(&self, pids: Vec<u32>, op: Op) -> Result<(Vec<Suspended>, Steps)> {
        let request = Request { folder: self.folder.clone(), pids, op };
        match run(&self.program, &request) {
            Ok(Answer::Suspended(all)) => Ok((all, Steps::default())),
            Ok(Answer::Resumed(all, steps)) => Ok((all, steps)),
            Ok(Answer::Refused(why)) => Err(Error::Unavailable(why)),
            Err(error) => Err(Error::system("the process that suspends", error)),
        }
    }

    /// Opens the gates of these processes, or ends that.
    fn exempt(&self, pids: &[u32], is_exempt: bool) {
        let Some(registry) = self.registry.upgrade() else { return };
        let all = registry.guests();
        let guests = all.iter().filter(|guest| pids.contains(&guest.who.pid));
        let guests: Vec<u32> = guests.map(|guest| guest.who.guest).collect();
        registry.exempt(&guests, is_exempt);
    }
}
