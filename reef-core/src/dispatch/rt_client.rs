//! Real-time tasks: what clients hold.

use crate::dispatch::dispatcher::Core;
use crate::{Command, Device, Error, Event, Result};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

/// Commands that make up one inference; can be submitted any number of times.
#[derive(Debug, Clone)]
pub struct Task<D: Device> {
    commands: Arc<[Command<D>]>,
}

impl<D: Device> Task<D> {
    /// Takes launches, copies, fills and event records.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is a wait or host code among them: real-time work waits for nobody.
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
pub(crate) struct State {
    done: OnceLock<Result<Timing>>,
    waiter: Mutex<Option<Thread>>,
}

impl State {
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

/// A submitted real-time task.
#[derive(Debug)]
pub struct Ticket<D: Device> {
    state: Arc<State>,
    core: Arc<Core<D>>,
}

impl<D: Device> Ticket<D> {
    /// How the task ended, or `None` if it hasn't.
    pub fn poll(&self) -> Option<Result<Timing>> {
        self.state.done.get().cloned()
    }

    /// Blocks until the task has finished.
    ///
    /// Meanwhile the device wakes this thread and not the service thread, which saves a hop. If the device
    /// wakes nobody, this thread makes turns until the service thread does, and then looks at the ticket
    /// alone: the turn that ends a task also lets best-effort work go on, which takes longer.
    ///
    /// # Errors
    ///
    /// What kept it from finishing: `Cancelled`, or the error of the device.
    pub fn wait(self) -> Result<Timing> {
        *self.state.waiter.lock() = Some(thread::current());
        if !self.core.with(|state| state.rt.wake(thread::current())) {
            return self.spin();
        }
        let how = loop {
            self.core.turn();
            if let Some(how) = self.poll() {
                break how;
            }
            thread::park();
        };
        self.core.with(|state| state.rt.wake(self.core.service().clone()));
        self.core.turn(); // news between the last turn and the line above
        how
    }
}

/// Looks at a ticket, one after the other, before who waits does something else.
const LOOKS: u32 = 64;

impl<D: Device> Ticket<D> {
    /// Waits where the device wakes nobody.
    fn spin(&self) -> Result<Timing> {
        loop {
            for _ in 0..LOOKS {
                if let Some(how) = self.poll() {
                    return how;
                }
                std::hint::spin_loop();
            }
            // The service thread may want this core.
            if self.core.is_polled() { thread::yield_now() } else { self.core.turn() }
        }
    }
}

/// A client whose tasks are real-time. Clone it for each thread.
#[derive(Debug)]
pub struct RtClient<D: Device> {
    core: Arc<Core<D>>,
    events: [D::Event; 2],
    /// The newest task, which uses `events` until it is over.
    last: Option<Arc<State>>,
}

impl<D: Device> RtClient<D> {
    pub(crate) fn new(core: Arc<Core<D>>) -> Result<Self> {
        let events = [core.device.event()?, core.device.event()?];
        Ok(Self { core, events, last: None })
    }

    /// Submits a task: best-effort work is preempted and the task launched before this returns,
    /// unless the scheduler decides otherwise.
    ///
    /// # Errors
    ///
    /// `Cancelled` if the dispatcher is gone; `State` if too many requests wait.
    pub fn submit(&mut self, task: &Task<D>) -> Result<Ticket<D>> {
        self.submit_before(task, None)
    }

    /// As [`submit`](Self::submit), to be finished within `deadline` from now; see
    /// [`EarliestDeadline`](crate::scheduler::EarliestDeadline).
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn submit_before(
        &mut self,
        task: &Task<D>,
        deadline: Option<Duration>,
    ) -> Result<Ticket<D>> {
        let state = Arc::new(State::default());
        let events = self.events(&state)?;
        let since = self.core.now();
        self.core.request(Request {
            commands: task.commands.clone(),
            events,
            ticket: state.clone(),
            since,
            deadline: deadline.map(|time| since.saturating_add(time)),
        })?;
        Ok(Ticket { state, core: self.core.clone() })
    }

    /// Runs a task and waits for it.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit) and [`Ticket::wait`].
    pub fn run(&mut self, task: &Task<D>) -> Result<Timing> {
        self.submit(task)?.wait()
    }

    /// Events for a task: those of the last one if it is over, else new ones.
    fn events(&mut self, task: &Arc<State>) -> Result<[D::Event; 2]> {
        let last = self.last.replace(task.clone());
        if last.is_some_and(|last| last.done.get().is_none()) {
            let device = &self.core.device;
            self.events = [device.event()?, device.event()?];
        }
        Ok(self.events.clone())
    }
}

/// A real-time task on its way.
#[derive(Debug)]
pub(crate) struct Request<D: Device> {
    pub(crate) commands: Arc<[Command<D>]>,
    /// Reached when the first command starts and when the last has finished.
    pub(crate) events: [D::Event; 2],
    pub(crate) ticket: Arc<State>,
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
