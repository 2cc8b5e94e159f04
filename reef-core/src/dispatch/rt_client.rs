//! Real-time clients.

use crate::backend::device::Device;
use crate::backend::error::Result;
use crate::dispatch::pass::Dispatch;
use crate::dispatch::queues::account::Account;
use crate::dispatch::queues::task::{Request, Task, TaskState, Timing};
use crate::dispatch::ticket::Ticket;
use crate::scheduler::policy::RtTaskView;
use std::sync::Arc;
use std::time::Duration;

/// A client whose tasks are real-time. Clone it for each thread.
///
/// ```
/// use reef_core::{Device, Dispatcher, Result, Task};
/// use std::time::Duration;
///
/// fn serve<D: Device>(dispatcher: &Dispatcher<D>, task: &Task<D>) -> Result<()> {
///     let mut client = dispatcher.real_time()?;
///     let timing = client.run(task)?; // submits and waits
///     println!("started after {:?}, took {:?}", timing.delay, timing.total);
///
///     let ticket = client.submit(task)?; // or does something else meanwhile
///     match ticket.wait_timeout(Duration::from_millis(5)) {
///         Some(timing) => println!("took {:?}", timing?.total),
///         None => println!("cancelled before it started: {}", ticket.cancel()),
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct RtClient<D: Device> {
    dispatch: Arc<Dispatch<D>>,
    priority: i32,
    account: Account,
    last: Option<Last<D>>,
}

/// Events of the newest task, which uses them until it is over; `None` if there has been none.
#[derive(Debug)]
struct Last<D: Device> {
    events: [D::Event; 2],
    task: Option<Arc<TaskState>>,
}

/// The clone charges the same account, has no tasks and makes its own events when it submits its
/// first one.
impl<D: Device> Clone for RtClient<D> {
    fn clone(&self) -> Self {
        let (dispatch, account) = (self.dispatch.clone(), self.account.clone());
        Self { dispatch, priority: self.priority, account, last: None }
    }
}

impl<D: Device> RtClient<D> {
    pub(crate) fn new(dispatch: Arc<Dispatch<D>>) -> Result<Self> {
        let events = new_events(&dispatch.device)?;
        let account = Account::new(None);
        Ok(Self { dispatch, priority: 0, account, last: Some(Last { events, task: None }) })
    }

    /// Sets the priority: larger goes first under
    /// [`FixedPriority`](crate::scheduler::FixedPriority); 0 if this isn't called.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Charges the tasks to come to `account`; without this call, to one of the client's own
    /// without a [`Rate`](crate::Rate).
    pub fn charge(&mut self, account: &Account) {
        self.account = account.clone();
    }

    /// Returns the account that its tasks are charged to.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Has the device prepare a task, which takes the driver milliseconds for a graph: call it when
    /// the task is made, or the first [`submit`](Self::submit) does it. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver.
    pub fn prepare(&self, task: &Task<D>) -> Result<()> {
        self.dispatch.prepare(&task.commands)
    }

    /// Submits a task: best-effort work is preempted and the task launched before this returns,
    /// unless the scheduler decides otherwise. On a device that is lost the ticket ends with the
    /// reason.
    ///
    /// # Errors
    ///
    /// `Cancelled` if the dispatcher is gone; `State` if too many tasks wait for a pass, which
    /// another thread has; the errors of [`prepare`](Self::prepare).
    pub fn submit(&mut self, task: &Task<D>) -> Result<Ticket<D>> {
        self.submit_before(task, None)
    }

    /// As [`submit`](Self::submit), to be finished within `deadline` from now; see
    /// [`EarliestDeadline`](crate::scheduler::EarliestDeadline).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`submit`](Self::submit).
    pub fn submit_before(
        &mut self,
        task: &Task<D>,
        deadline: Option<Duration>,
    ) -> Result<Ticket<D>> {
        let ticket = Arc::new(TaskState::new(&self.dispatch.to_wake));
        let dispatcher = self.dispatch.id;
        let has_run = task.ran.is(dispatcher);
        if !has_run {
            self.prepare(task)?;
        }
        let events = self.events(&ticket)?;
        let since = self.dispatch.now();
        let deadline = deadline.map(|time| since.saturating_add(time));
        let view = RtTaskView { deadline, priority: self.priority, ..RtTaskView::new(since) };
        let result = Ticket::new(ticket.clone(), self.dispatch.clone());
        self.dispatch.request(Request {
            commands: task.commands.clone(),
            task: task.id,
            events,
            ticket,
            account: self.account.clone(),
            view,
            has_run,
            ran: task.ran.clone(),
            dispatcher,
        })?;
        Ok(result)
    }

    /// Runs a task and waits for it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`submit`](Self::submit) and [`Ticket::wait`].
    pub fn run(&mut self, task: &Task<D>) -> Result<Timing> {
        self.submit(task)?.wait()
    }

    /// Events for a task: those of the last one if it is over, else new ones.
    fn events(&mut self, state: &Arc<TaskState>) -> Result<[D::Event; 2]> {
        let is_over =
            |last: &Last<D>| last.task.as_ref().is_none_or(|task| task.outcome().is_some());
        let events = match self.last.take().filter(is_over) {
            Some(last) => last.events,
            None => new_events(&self.dispatch.device)?,
        };
        self.last = Some(Last { events: events.clone(), task: Some(state.clone()) });
        Ok(events)
    }
}

/// One for the start of a task and one for its end.
fn new_events<D: Device>(device: &D) -> Result<[D::Event; 2]> {
    Ok([device.event()?, device.event()?])
}
