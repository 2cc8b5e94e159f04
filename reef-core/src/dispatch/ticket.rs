//! Tickets: a client learns the outcome of its task by waiting, by polling, or as a future.

use crate::backend::device::Device;
use crate::backend::error::Result;
use crate::dispatch::pass::Dispatch;
use crate::dispatch::queues::task::{TaskState, Timing, Waiter};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

/// Number of polls of a ticket before the waiting thread does something else.
const POLLS: u32 = 64;

/// A submitted real-time task.
///
/// It is also a future, for any executor: the dispatcher's thread wakes its task. Dropping a ticket
/// leaves the task as it is.
///
/// If another thread hangs in a call of the driver, tickets end with `DeviceLost` after ten
/// seconds. A thread that hangs itself, as one that submits or waits may, goes on when the call
/// returns.
///
/// ```
/// use reef_core::scheduler::Reef;
/// use reef_core::{Cells, Device, Dispatcher, Task};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let dispatcher = Dispatcher::start(&device, Reef::default())?;
/// let task = Task::new([Cells::new(&device, 4)?.append(7, 0)])?;
/// let ticket = dispatcher.real_time()?.submit(&task)?;
/// println!("took {:?}", ticket.wait()?.total); // or `ticket.await`
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a ticket says whether the task finished"]
pub struct Ticket<D: Device> {
    state: Arc<TaskState>,
    dispatch: Arc<Dispatch<D>>,
    /// It is waited for as a future.
    is_polled: bool,
}

impl<D: Device> Ticket<D> {
    pub(crate) fn new(state: Arc<TaskState>, dispatch: Arc<Dispatch<D>>) -> Self {
        Self { state, dispatch, is_polled: false }
    }

    /// Returns the outcome of the task, or `None` if it hasn't ended. Doesn't block.
    pub fn try_wait(&self) -> Option<Result<Timing>> {
        if self.dispatch.hangs() {
            self.state.fail(self.dispatch.hang_error()); // unless it has ended
        }
        self.state.outcome().cloned()
    }

    /// Blocks until the task has ended.
    ///
    /// Meanwhile the device wakes this thread and not the service thread, which saves a hop. If the
    /// device wakes no thread, this one makes passes until the service thread makes them, and then
    /// polls only the ticket: the pass that ends a task also lets best-effort work continue, which
    /// takes longer.
    ///
    /// # Errors
    ///
    /// The error that kept it from finishing: `Cancelled`, or the error of the device.
    pub fn wait(self) -> Result<Timing> {
        loop {
            if let Some(outcome) = self.wait_until(None) {
                return outcome; // in the first round, as there is no limit
            }
        }
    }

    /// As [`wait`](Self::wait), for no longer than `time`: returns the outcome, or `None` if the
    /// task hasn't ended.
    ///
    /// The task goes on after that; see [`cancel`](Self::cancel).
    pub fn wait_timeout(&self, time: Duration) -> Option<Result<Timing>> {
        // A time beyond the clock's range is not a limit.
        self.wait_until(Instant::now().checked_add(time))
    }

    /// Takes back what has not been given to the device: the task then ends as `Cancelled`, at once
    /// or when what the device has of it has ended.
    ///
    /// `false`: the device has all of it, it has ended, or the device is lost because a call of the
    /// driver hangs. It ends as it would have.
    pub fn cancel(&self) -> bool {
        self.dispatch.cancel(&self.state)
    }

    fn wait_until(&self, limit: Option<Instant>) -> Option<Result<Timing>> {
        self.state.wake_at_end(Waiter::Thread(thread::current()));
        self.state.begin_wait();
        let outcome = self.wait_here(limit);
        self.state.end_wait();
        if outcome.is_none() {
            self.state.leave(&thread::current());
        }
        outcome
    }

    fn wait_here(&self, limit: Option<Instant>) -> Option<Result<Timing>> {
        match self.dispatch.with_until(limit, |state| state.rt.wake(thread::current())) {
            None => return self.try_wait(), // a pass lasts for longer than this may wait, or hangs
            Some(false) => return self.spin(limit),
            Some(true) => {}
        }
        let outcome = loop {
            self.dispatch.pass();
            let outcome = self.try_wait();
            if outcome.is_some() || !park(limit) {
                break outcome;
            }
        };
        self.dispatch.return_wakes();
        outcome
    }

    /// Waits where the device wakes no thread.
    fn spin(&self, limit: Option<Instant>) -> Option<Result<Timing>> {
        loop {
            for _ in 0..POLLS {
                if let Some(outcome) = self.try_wait() {
                    return Some(outcome);
                }
                std::hint::spin_loop();
            }
            if limit.is_some_and(|limit| Instant::now() >= limit) {
                return None;
            }
            // The service thread may want this core.
            if self.dispatch.is_polled() { thread::yield_now() } else { self.dispatch.pass() }
        }
    }
}

/// Parks this thread until `limit` at most. `false`: that has come.
fn park(limit: Option<Instant>) -> bool {
    let Some(limit) = limit else {
        thread::park();
        return true;
    };
    let left = limit.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::park_timeout(left);
    }
    !left.is_zero()
}

impl<D: Device> Future for Ticket<D> {
    type Output = Result<Timing>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(outcome) = self.try_wait() {
            return Poll::Ready(outcome);
        }
        self.state.wake_at_end(Waiter::Waker(context.waker().clone()));
        let ticket = self.get_mut();
        if !std::mem::replace(&mut ticket.is_polled, true) {
            ticket.state.begin_wait();
        }
        // It may have ended before the waker was there.
        ticket.try_wait().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<D: Device> Drop for Ticket<D> {
    fn drop(&mut self) {
        if self.is_polled {
            self.state.end_wait();
            self.state.forget_waker();
        }
    }
}
