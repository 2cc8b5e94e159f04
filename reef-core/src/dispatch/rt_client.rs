//! What real-time clients hold.

use crate::backend::device::Device;
use crate::backend::error::Result;
use crate::dispatch::core::Core;
use crate::dispatch::task::{Request, Task, TaskState, Timing};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A submitted real-time task.
#[derive(Debug)]
pub struct Ticket<D: Device> {
    state: Arc<TaskState>,
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
    /// wakes no thread, this one makes passes until the service thread does, and then looks at the ticket
    /// alone: the pass that ends a task also lets best-effort work go on, which takes longer.
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
            self.core.pass();
            if let Some(how) = self.poll() {
                break how;
            }
            thread::park();
        };
        self.core.with(|state| state.rt.wake(self.core.service().clone()));
        self.core.pass(); // news between the last pass and the line above
        how
    }
}

/// Looks at a ticket, one after the other, before who waits does something else.
const POLLS: u32 = 64;

impl<D: Device> Ticket<D> {
    /// Waits where the device wakes no thread.
    fn spin(&self) -> Result<Timing> {
        loop {
            for _ in 0..POLLS {
                if let Some(how) = self.poll() {
                    return how;
                }
                std::hint::spin_loop();
            }
            // The service thread may want this core.
            if self.core.is_polled() { thread::yield_now() } else { self.core.pass() }
        }
    }
}

/// A client whose tasks are real-time. Clone it for each thread.
#[derive(Debug)]
pub struct RtClient<D: Device> {
    core: Arc<Core<D>>,
    events: [D::Event; 2],
    /// The newest task, which uses `events` until it is over.
    last: Option<Arc<TaskState>>,
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
        let state = Arc::new(TaskState::default());
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
    fn events(&mut self, task: &Arc<TaskState>) -> Result<[D::Event; 2]> {
        let last = self.last.replace(task.clone());
        if last.is_some_and(|last| last.done.get().is_none()) {
            let device = &self.core.device;
            self.events = [device.event()?, device.event()?];
        }
        Ok(self.events.clone())
    }
}
