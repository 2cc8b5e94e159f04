//! Submitting end of a virtual queue.

use crate::backend::command::Command;
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::Seq;
use crate::sync::park::spin_until;
use crate::sync::ring::Producer;
use crate::vqueue::shared::Shared;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Submitting end of a virtual queue. One thread submits; another may preempt meanwhile.
///
/// ```
/// use reef_core::{Cells, Config, Device, Seq, VirtualQueue};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let cells = Cells::new(&device, 4)?;
/// let (mut submitter, queue) = VirtualQueue::enable(&device, Config::default().capacity(1))?;
/// queue.preempt(true)?; // nothing is launched
/// assert_eq!(submitter.submit(cells.append(7, 0)).ok(), Some(Seq(0)));
/// assert!(submitter.submit(cells.append(8, 0)).is_err(), "the queue is full");
/// queue.restore()?;
/// submitter.wait(Seq(0))?;
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Submitter<D: Device> {
    pub(crate) commands: Producer<Command<D>>,
    pub(crate) shared: Arc<Shared<D>>,
    pub(crate) spin: Duration,
}

impl<D: Device> Submitter<D> {
    /// Adds a command and returns its position, or gives it back if the queue is full.
    ///
    /// Never blocks and never allocates; also works while the queue is preempted. Commands of a
    /// queue that has ended are accepted and never run; [`wait`](Self::wait) returns its error.
    ///
    /// # Errors
    ///
    /// The command, if `capacity` commands have not completed yet.
    #[inline]
    #[allow(clippy::result_large_err)] // the command comes back by value, that is the point
    pub fn submit(&mut self, command: Command<D>) -> Result<Seq, Command<D>> {
        let at = self.commands.push(command)?;
        self.shared.wake_sleeping_worker();
        self.shared.notify_watching();
        Ok(Seq(at))
    }

    /// Adds a command, waiting for room if the queue is full.
    ///
    /// # Errors
    ///
    /// The error that ended the queue; `State` if it is full and its own host code calls.
    pub fn submit_blocking(&mut self, command: Command<D>) -> Result<Seq> {
        let mut command = command;
        loop {
            self.check()?;
            match self.submit(command) {
                Ok(seq) => return Ok(seq),
                Err(back) => command = back,
            }
            self.wait_for_room()?;
        }
    }

    /// Blocks until a command has completed, if none has since the queue was full.
    pub(crate) fn wait_for_room(&self) -> Result<()> {
        let oldest = self.completed();
        if oldest < self.submitted() { self.wait(oldest) } else { Ok(()) }
    }

    /// Checks that the queue takes commands that will run.
    ///
    /// # Errors
    ///
    /// The error that ended it.
    pub(crate) fn check(&self) -> Result<()> {
        self.shared.failed().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Returns the position after the last command that was submitted.
    pub fn submitted(&self) -> Seq {
        Seq(self.commands.submitted())
    }

    /// All commands before this position have finished.
    pub fn completed(&self) -> Seq {
        Seq(self.commands.completed())
    }

    /// Blocks until the command at `seq` has finished.
    ///
    /// # Errors
    ///
    /// The error that ended the queue; `Invalid` if `seq` was never submitted; `State` if it is not
    /// before the host code of the queue that calls.
    pub fn wait(&self, seq: Seq) -> Result<()> {
        self.check_submitted(seq)?;
        if !self.is_over(seq) && self.shared.is_worker() {
            return Err(Error::state("waiting for a command", "host code of its own queue waits"));
        }
        if !spin_until(self.spin, || self.is_over(seq)) {
            self.shared.waiters().wait_until(|| self.is_over(seq));
        }
        self.outcome(seq)
    }

    /// As [`wait`](Self::wait), for no longer than `time`. `None`: the command still runs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`wait`](Self::wait).
    pub fn wait_timeout(&self, seq: Seq, time: Duration) -> Option<Result<()>> {
        if let Err(error) = self.check_submitted(seq) {
            return Some(Err(error));
        }
        let Some(end) = Instant::now().checked_add(time) else {
            return Some(self.wait(seq));
        };
        let is_over = self.shared.waiters().wait_until_or(end, || self.is_over(seq));
        is_over.then(|| self.outcome(seq))
    }

    fn check_submitted(&self, seq: Seq) -> Result<()> {
        if seq < self.submitted() {
            return Ok(());
        }
        let submitted = self.submitted().0;
        Err(Error::invalid(
            "position",
            format!("must be one of {submitted} that were submitted, got {}", seq.0),
        ))
    }

    /// Returns whether the command has finished or never will.
    fn is_over(&self, Seq(at): Seq) -> bool {
        self.commands.completed() > at || self.shared.failed().is_some()
    }

    fn outcome(&self, Seq(at): Seq) -> Result<()> {
        match self.shared.failed() {
            Some(error) if self.commands.completed() <= at => Err(error.clone()),
            _ => Ok(()),
        }
    }
}
