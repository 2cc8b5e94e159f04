//! Suspension of best-effort guests: out of the GPU's memory, and back.
//!
//! *In*: a process number or the name of a job. *Out*: records, figures for `/metrics`.
//! *Invariant*: a guest that is suspended, or about to be, has open gates, whatever holds its
//! device. Otherwise its work would not end and the driver would refuse. A real-time guest is not
//! suspended. One operation at a time, in a process of its own, so that the end of the daemon
//! leaves no process half suspended.

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

    /// Guests of this process number or of this job.
    fn find(&self, target: &str) -> Result<(Vec<u32>, Vec<u32>)> {
        let guests = self.registry.upgrade().map(|registry| registry.guests()).unwrap_or_default();
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
        Ok((meant.iter().map(|guest| guest.who.guest).collect(), pids.into_iter().collect()))
    }

    /// Suspends a guest, or all of a job. Blocks.
    ///
    /// # Errors
    ///
    /// `NotFound`, `Invalid`: it is not a best-effort guest. `Unavailable`: the driver refuses; the
    /// guest runs on.
    pub(crate) fn suspend(&self, target: &str, timeout: Duration) -> Result<Vec<Suspended>> {
        let timeout_ms = millis(timeout)?;
        let (guests, pids) = self.find(target)?;
        let _operation = self.operation.lock();
        self.exempt(&guests, true);
        match self.run(pids, Op::Suspend { timeout_ms }) {
            Ok((all, _)) => {
                self.figures.lock().note_suspension(&all);
                Ok(all)
            }
            Err(error) => {
                self.figures.lock().refused += 1;
                self.exempt(&guests, false);
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
        let (guests, pids) = self.find(target)?;
        let _operation = self.operation.lock();
        self.exempt(&guests, true);
        let moved = self.run(pids, Op::Move { timeout_ms, to });
        self.exempt(&guests, false);
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
        let (guests, pids) = self.find(target)?;
        let _operation = self.operation.lock();
        match self.run(pids, Op::Resume { to: None }) {
            Ok((all, steps)) => {
                self.figures.lock().note_return(steps);
                self.exempt(&guests, false);
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

    fn exempt(&self, guests: &[u32], is_exempt: bool) {
        if let Some(registry) = self.registry.upgrade() {
            registry.exempt(guests, is_exempt);
        }
    }
}
