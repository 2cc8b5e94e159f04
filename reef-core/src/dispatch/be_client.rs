//! Best-effort clients: what they hold, and what the dispatcher keeps of them.

use crate::dispatch::dispatcher::Core;
use crate::dispatch::rt_queue::Chosen;
use crate::dkp;
use crate::scheduler::{QueueView, TaskView};
use crate::vqueue::config::Config;
use crate::vqueue::submitter::Submitter;
use crate::vqueue::virtual_queue::VirtualQueue;
use crate::{Checkpoint, Command, Device, DeviceInfo, Launch, Result, Seq};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// What a best-effort client wants.
#[derive(Debug, Clone, Copy)]
pub struct ClientConfig {
    /// Sizes of its queue. The level is the scheduler's and is not looked at.
    pub queue: Config,
    /// Share of device time under a fair scheduler, at least 1.
    pub weight: u32,
    /// Larger goes first under a priority scheduler.
    pub priority: i32,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self { queue: Config::default(), weight: 1, priority: 0 }
    }
}

/// Tasks of a client that have not finished, oldest first.
type Tasks = Arc<Mutex<VecDeque<TaskView>>>;

/// What the dispatcher keeps of a client.
#[derive(Debug)]
pub(crate) struct Member<D: Device> {
    pub(crate) id: u64,
    pub(crate) queue: VirtualQueue<D>,
    tasks: Tasks,
    weight: u32,
    priority: i32,
    pub(crate) served: Duration,
}

impl<D: Device> Member<D> {
    /// What a scheduler sees of it.
    pub(crate) fn view(&mut self) -> QueueView {
        let shared = self.queue.shared();
        shared.watch(); // before the look, or a submission between them would go unheard
        let (mut completed, mut submitted) = shared.cursors();
        let mut tasks = self.tasks.lock();
        if shared.failed().is_some() {
            // Nothing of it will run: all of it counts as finished, half submitted tasks as well.
            submitted = tasks.back().map_or(submitted, |task| task.end.0.max(submitted));
            completed = submitted;
        }
        while tasks.pop_front_if(|task| task.end.0 <= completed).is_some() {}
        QueueView {
            id: self.id,
            completed: Seq(completed),
            submitted: Seq(submitted),
            task: tasks.front().copied(),
            weight: self.weight,
            priority: self.priority,
            served: self.served,
            idle: shared.is_idle(),
        }
    }

    /// Blocks of this client's next kernel that fit beside `rt`. Only while it is quiesced.
    pub(crate) fn padding(
        &mut self,
        device: &D,
        rt: &Launch<D>,
        info: &DeviceInfo,
    ) -> Result<Option<Chosen<D>>> {
        let shared = self.queue.shared();
        if shared.failed().is_some() {
            return Ok(None);
        }
        let Some(mut lane) = shared.lane.try_lock() else { return Ok(None) };
        if lane.finish_padded() {
            shared.notify();
        }
        let Some((be, record)) = lane.head(device)? else { return Ok(None) };
        let profiles = rt.profile().zip(be.profile());
        let padding = profiles.and_then(|(rt, be)| dkp::plan(rt, be, record.remaining(), info));
        Ok(padding.map(|padding| (padding, be.clone(), record)))
    }
}

/// A client with a queue of its own for best-effort work.
///
/// Dropping it cancels what has not been launched and waits for what has.
#[derive(Debug)]
pub struct BeClient<D: Device> {
    core: Arc<Core<D>>,
    id: u64,
    tasks: Tasks,
    submitter: Submitter<D>,
}

impl<D: Device> BeClient<D> {
    pub(crate) fn new(core: Arc<Core<D>>, config: ClientConfig) -> Result<Self> {
        let (submitter, queue) = core.group.enable_watched(config.queue, core.service().clone())?;
        let id = core.new_id();
        let tasks = Tasks::default();
        let member = Member {
            id,
            queue,
            tasks: tasks.clone(),
            weight: config.weight.max(1),
            priority: config.priority,
            served: Duration::ZERO,
        };
        core.with(|state| state.members.push(member));
        core.turn();
        Ok(Self { core, id, tasks, submitter })
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
            return Err(crate::Error::invalid("a task without commands"));
        };
        let end = Seq(self.submitter.submitted().0 + commands.len() as u64);
        let since = self.core.now();
        let deadline = deadline.map(|time| since.saturating_add(time));
        self.tasks.lock().push_back(TaskView { since, deadline, end });
        for command in first {
            self.submitter.submit_blocking(command.clone())?;
        }
        self.submitter.submit_blocking(last.clone())
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
        let member = self.core.with(|state| {
            let index = state.members.iter().position(|member| member.id == self.id)?;
            Some(state.members.remove(index))
        });
        drop(member); // on this thread, which alone waits for what runs
    }
}
