//! What best-effort clients hold.

use crate::backend::command::Command;
use crate::backend::device::Device;
use crate::backend::error::{Error, Result};
use crate::backend::info::Seq;
use crate::dispatch::pass::Core;
use crate::dispatch::queues::be_queue::{BeQueue, Tasks};
use crate::limits::ClientConfig;
use crate::scheduler::policy::TaskView;
use crate::sync::ring::Producer;
use crate::vqueue::submitter::Submitter;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How often a client that is dropped looks whether its blocks still run beside a real-time kernel.
const DONATION_POLL: Duration = Duration::from_micros(50);

/// A client with a queue of its own for best-effort work.
///
/// Dropping it cancels what has not been launched and waits for what has, also beside real-time
/// kernels.
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
    core: Arc<Core<D>>,
    id: u64,
    tasks: Producer<TaskView>,
    submitter: Submitter<D>,
}

impl<D: Device> BeClient<D> {
    pub(crate) fn new(core: Arc<Core<D>>, config: ClientConfig) -> Result<Self> {
        if let Some(error) = core.with(|state| state.loss.why().cloned()) {
            return Err(error);
        }
        let (submitter, queue) = core.group.enable_watched(config.queue, core.service().clone())?;
        let id = core.new_id();
        let (producer, tasks) = Tasks::new(config.queue.capacity);
        let kept = BeQueue {
            id,
            queue,
            tasks,
            weight: config.weight.max(1),
            priority: config.priority,
            served: Duration::ZERO,
        };
        core.with(|state| state.queues.push(kept));
        core.pass();
        Ok(Self { core, id, tasks: producer, submitter })
    }

    /// Device time that it has had, as far as the dispatcher can tell: what ran at once shares it
    /// in equal parts.
    pub fn served(&self) -> Duration {
        self.core.with(|state| {
            let queue = state.queues.iter().find(|queue| queue.id == self.id);
            queue.map(|queue| queue.served).unwrap_or_default()
        })
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
    /// As [`submit`](Self::submit).
    pub fn submit_before(
        &mut self,
        commands: &[Command<D>],
        deadline: Option<Duration>,
    ) -> Result<Seq> {
        let Some((last, first)) = commands.split_last() else {
            return Err(Error::invalid("a task without commands"));
        };
        let end = Seq(self.submitter.submitted().0 + commands.len() as u64);
        let since = self.core.now();
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
            self.core.pass(); // which takes all that have come
            thread::yield_now();
        }
        Ok(())
    }

    /// Blocks until the command at `seq` has finished.
    ///
    /// # Errors
    ///
    /// As [`Submitter::wait`].
    pub fn wait(&self, seq: Seq) -> Result<()> {
        self.submitter.wait(seq)
    }

    /// As [`wait`](Self::wait), for no longer than `time`. Returns whether it has finished.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_for(&self, seq: Seq, time: Duration) -> Result<bool> {
        self.submitter.wait_for(seq, time)
    }

    /// Runs commands and waits for them.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit) and [`wait`](Self::wait).
    pub fn run(&mut self, commands: &[Command<D>]) -> Result<()> {
        let last = self.submit(commands)?;
        self.wait(last)
    }
}

impl<D: Device> Drop for BeClient<D> {
    fn drop(&mut self) {
        let kept = self.core.with(|state| {
            let index = state.queues.iter().position(|queue| queue.id == self.id)?;
            Some(state.queues.remove(index))
        });
        drop(kept); // on this thread, which alone waits for what runs
        while self.core.with(|state| state.rt.runs_blocks_of(self.id)) {
            self.core.pass();
            thread::sleep(DONATION_POLL);
        }
    }
}
