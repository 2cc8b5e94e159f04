//! Best-effort clients.

use crate::backend::command::Command;
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::{PreemptLevel, Seq};
use crate::dispatch::pass::Dispatch;
use crate::dispatch::queues::be_queue::{BeQueue, Tasks};
use crate::limits::ClientConfig;
use crate::scheduler::policy::TaskView;
use crate::sync::ring::Producer;
use crate::vqueue::parked::Parked;
use crate::vqueue::submitter::Submitter;
use crate::vqueue::virtual_queue::VirtualQueue;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Interval at which a client that is dropped polls whether its blocks still run next to a
/// real-time kernel.
const DONATION_POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Interval at which a client that is parked polls whether its queue has stopped.
const PARK_POLL_INTERVAL: Duration = Duration::from_micros(50);

/// A client with a queue of its own for best-effort work.
///
/// Dropping it cancels what has not been launched and waits for what has, also next to real-time
/// kernels: as [`VirtualQueue`](crate::VirtualQueue) does, and not at all if the device is lost.
///
/// ```
/// use reef_core::{ClientConfig, Command, Device, Dispatcher, Result};
///
/// /// Runs an inference many times and keeps two of them queued.
/// fn train<D: Device>(dispatcher: &Dispatcher<D>, inference: &[Command<D>]) -> Result<()> {
///     let mut client = dispatcher.best_effort(ClientConfig::default())?;
///     let mut last = client.submit(inference)?;
///     for _ in 1..100 {
///         let next = client.submit(inference)?; // waits for room if the queue is full
///         client.wait(last)?;
///         last = next;
///     }
///     client.wait(last)
/// }
/// ```
#[derive(Debug)]
pub struct BeClient<D: Device> {
    dispatch: Arc<Dispatch<D>>,
    id: u64,
    tasks: Producer<TaskView>,
    submitter: Submitter<D>,
}

impl<D: Device> BeClient<D> {
    pub(crate) fn new(
        dispatch: Arc<Dispatch<D>>,
        config: ClientConfig,
        parked: Parked<D>,
    ) -> Result<Self> {
        if let Some(error) = dispatch.lost.get() {
            return Err(error.clone());
        }
        let service = dispatch.service().clone();
        let has_parked = !parked.commands().is_empty();
        let (submitter, queue) = dispatch.group.enable_watched(config.queue, service, parked)?;
        let id = dispatch.new_id();
        let (mut producer, tasks) = Tasks::new(config.queue.capacity);
        if has_parked {
            // They count as a task that came now, or schedulers would not let them age.
            let task = TaskView::new(dispatch.now(), submitter.submitted());
            let _ = producer.push(task); // the first, for which there is room
        }
        let be_queue = BeQueue {
            id,
            queue,
            tasks,
            weight: config.weight.max(1),
            priority: config.priority,
            served: Duration::ZERO,
        };
        dispatch.with(|state| state.queues.push(be_queue)).ok_or_else(|| dispatch.hang_error())?;
        dispatch.pass();
        Ok(Self { dispatch, id, tasks: producer, submitter })
    }

    /// Device time that it has used, as far as the dispatcher can tell: queues that run at once
    /// share it in equal parts.
    pub fn served(&self) -> Duration {
        let served = self.dispatch.with(|state| {
            let queue = state.queues.iter().find(|queue| queue.id == self.id);
            queue.map(|queue| queue.served)
        });
        served.flatten().unwrap_or_default()
    }

    /// The end where single commands enter.
    pub fn submitter(&mut self) -> &mut Submitter<D> {
        &mut self.submitter
    }

    /// Submits commands that belong together, waiting for room if the queue is full. Returns the
    /// last one's position.
    ///
    /// # Errors
    ///
    /// The error that ended the queue; `Invalid` if there are no commands.
    pub fn submit(&mut self, commands: &[Command<D>]) -> Result<Seq> {
        self.submit_before(commands, None)
    }

    /// As [`submit`](Self::submit), to be finished within `deadline` from now.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`submit`](Self::submit).
    pub fn submit_before(
        &mut self,
        commands: &[Command<D>],
        deadline: Option<Duration>,
    ) -> Result<Seq> {
        let Some((last, first)) = commands.split_last() else {
            return Err(Error::invalid("commands", "must be at least one, got none"));
        };
        let end = Seq(self.submitter.submitted().0 + commands.len() as u64);
        let since = self.dispatch.now();
        let deadline = deadline.map(|time| since.saturating_add(time));
        self.announce(TaskView { since, deadline, end })?;
        for command in first {
            self.submitter.submit_blocking(command.clone())?;
        }
        self.submitter.submit_blocking(last.clone())
    }

    /// Shows a task to the scheduler, before its commands come.
    fn announce(&mut self, task: TaskView) -> Result<()> {
        while self.tasks.push(task).is_err() {
            self.submitter.check()?;
            self.dispatch.pass(); // which takes all that have come
            thread::yield_now();
        }
        Ok(())
    }

    /// Blocks until the command at `seq` has finished.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Submitter::wait`].
    pub fn wait(&self, seq: Seq) -> Result<()> {
        self.submitter.wait(seq)
    }

    /// As [`wait`](Self::wait), for no longer than `time`. `None`: the command still runs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`wait`](Self::wait).
    pub fn wait_timeout(&self, seq: Seq, time: Duration) -> Option<Result<()>> {
        self.submitter.wait_timeout(seq, time)
    }

    /// Runs commands and waits for them.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`submit`](Self::submit) and [`wait`](Self::wait).
    pub fn run(&mut self, commands: &[Command<D>]) -> Result<()> {
        let last = self.submit(commands)?;
        self.wait(last)
    }
}

/// Parking, and the end.
impl<D: Device> BeClient<D> {
    /// Ends the client, as dropping it does.
    ///
    /// # Errors
    ///
    /// `DeviceLost` if the queue ended without what the device had of it: that may still run, and
    /// write memory.
    pub fn close(self) -> Result<()> {
        let shared = self.submitter.shared.clone();
        drop(self);
        match shared.failed() {
            Some(error) if matches!(error, Error::DeviceLost { .. }) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Stops its work, takes the commands that are left off its queue, and ends the client.
    ///
    /// Blocks until the device has stopped: for the end of running blocks, or at
    /// [`HostQueue`](crate::PreemptLevel::HostQueue) of the commands that were launched. Other
    /// best-effort clients are stopped meanwhile, unless it is that level.
    /// [`Dispatcher::best_effort_parked`](crate::Dispatcher::best_effort_parked) continues.
    ///
    /// # Errors
    ///
    /// Together with the client, which continues: `Invalid` with the position of a host function or
    /// an event; the errors of [`Device::blocks`]; the error that ended the queue, which may be
    /// that it did not stop in time.
    #[allow(clippy::result_large_err)] // the client comes back by value, that is the point
    pub fn park(self) -> Result<Parked<D>, (Error, Self)> {
        let Some(be_queue) = self.leave() else {
            let lost = self.dispatch.lost.get().cloned();
            return Err((lost.unwrap_or(Error::Cancelled), self));
        };
        let parked = self.stop(&be_queue.queue).and_then(|()| be_queue.queue.take_commands());
        match parked {
            Ok(parked) => Ok(parked),
            Err(error) => {
                let _ = self.dispatch.with(|state| state.queues.push(be_queue)); // or it is lost
                self.dispatch.pass();
                Err((error, self))
            }
        }
    }

    /// Takes its queue out of the dispatcher's, which schedules it no more. `None`: it has none
    /// any more, or a thread hangs with it.
    fn leave(&self) -> Option<BeQueue<D>> {
        let queue = self.dispatch.with(|state| {
            let index = state.queues.iter().position(|queue| queue.id == self.id)?;
            Some(state.queues.remove(index))
        });
        queue.flatten()
    }

    /// Stops the queue, which the dispatcher doesn't schedule any more.
    ///
    /// It launches nothing, because its limit is 0 and stays so: a pass that restores the group
    /// meanwhile releases it to no effect.
    fn stop(&self, queue: &VirtualQueue<D>) -> Result<()> {
        let shared = queue.shared();
        shared.set_limit(0);
        self.wait_for_donated();
        let is_stopped = self.dispatch.group.level() >= PreemptLevel::DeviceQueue;
        let mut result = Ok(());
        let has_work = || {
            let launcher = shared.try_launcher(); // of which a worker that hangs has the lock
            launcher.is_none_or(|launcher| launcher.commands.in_flight() > 0)
        };
        while has_work() && result.is_ok() {
            let is_told = shared.is_held();
            if is_stopped && !is_told {
                let stopped = self.dispatch.with(|_| {
                    self.dispatch.group.hold();
                    self.dispatch.group.stop()
                });
                result = stopped.unwrap_or_else(|| Err(self.dispatch.hang_error()));
            }
            if is_told {
                shared.try_quiesce();
            }
            thread::sleep(PARK_POLL_INTERVAL);
            result = result.and(self.submitter.check());
        }
        self.dispatch.pass(); // others continue
        result
    }

    /// Waits for blocks of its that run next to real-time kernels, unless the device is lost. The
    /// real-time queue keeps their memory.
    fn wait_for_donated(&self) {
        let runs = || self.dispatch.with(|state| state.rt.runs_blocks_of(self.id));
        while self.dispatch.lost.get().is_none() && runs() == Some(true) {
            self.dispatch.pass();
            thread::sleep(DONATION_POLL_INTERVAL);
        }
    }
}

impl<D: Device> Drop for BeClient<D> {
    fn drop(&mut self) {
        drop(self.leave()); // on this thread, which alone waits for what runs
        self.wait_for_donated();
    }
}
