//! Real-time tasks on their way, and how they end.

use crate::backend::command::Command;
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::types::Event;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// Commands that make up one inference; can be submitted any number of times.
#[derive(Debug, Clone)]
pub struct Task<D: Device> {
    pub(crate) commands: Arc<[Command<D>]>,
}

impl<D: Device> Task<D> {
    /// Takes launches, copies, fills and event records.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is a wait or host code among them: real-time work waits for nothing but the device.
    pub fn new(commands: impl Into<Arc<[Command<D>]>>) -> Result<Self> {
        let commands = commands.into();
        let waits = |c: &Command<D>| matches!(c, Command::Wait(_) | Command::Host(_));
        match commands.iter().position(waits) {
            None => Ok(Self { commands }),
            Some(at) => Err(Error::Invalid(format!(
                "command {at} of a real-time task waits: {:?}",
                commands[at]
            ))),
        }
    }

    /// Its commands in order.
    pub fn commands(&self) -> &[Command<D>] {
        &self.commands
    }
}

/// When a real-time task was where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// When it was submitted, on the device's clock.
    pub submitted: Duration,
    /// From submission until its first command could start: the preemption, if there was one.
    pub delay: Duration,
    /// From then until its last command ended.
    pub device: Duration,
    /// From submission until the dispatcher noted its end.
    pub total: Duration,
}

/// How a task ended, once it did.
#[derive(Debug, Default)]
pub(crate) struct TaskState {
    pub(crate) done: OnceLock<Result<Timing>>,
    pub(crate) waiter: Mutex<Option<Thread>>,
}

impl TaskState {
    pub(crate) fn fail(&self, error: Error) {
        self.complete(Err(error));
    }

    fn complete(&self, how: Result<Timing>) {
        if self.done.set(how).is_ok()
            && let Some(waiter) = self.waiter.lock().take()
        {
            waiter.unpark();
        }
    }
}

/// A real-time task on its way.
#[derive(Debug)]
pub(crate) struct Request<D: Device> {
    pub(crate) commands: Arc<[Command<D>]>,
    /// Reached when the first command starts and when the last has finished.
    pub(crate) events: [D::Event; 2],
    pub(crate) ticket: Arc<TaskState>,
    pub(crate) since: Duration,
    pub(crate) deadline: Option<Duration>,
}

impl<D: Device> Request<D> {
    pub(crate) fn finish(&self, now: Duration) {
        let [started, ended] = self.events.each_ref().map(|e| e.reached().unwrap_or_default());
        self.ticket.complete(Ok(Timing {
            submitted: self.since,
            delay: started.saturating_sub(self.since),
            device: ended.saturating_sub(started),
            total: now.saturating_sub(self.since),
        }));
    }
}
