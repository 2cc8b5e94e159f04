//! What a scheduler sees and what it says.

use crate::backend::info::{PreemptLevel, Priority, Seq};
use std::fmt::Debug;
use std::time::Duration;

/// Decides which queues run and whether real-time work may start.
pub trait Scheduler: Debug + Send {
    /// What to call it in tables.
    fn name(&self) -> &'static str;

    /// How deep best-effort queues are preempted when [`Plan::preempt`] is set.
    fn level(&self) -> PreemptLevel {
        PreemptLevel::All
    }

    /// Priority of the real-time hardware queue.
    fn rt_priority(&self) -> Priority {
        Priority::RealTime
    }

    /// Fills `plan`, which arrives as [`Plan::open`] leaves it. Called whenever something changed.
    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan);
}

/// What a scheduler sees. Times are on the device's clock.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Real-time tasks that have not been given to the device.
    pub rt_waiting: usize,
    /// Real-time tasks that the device has.
    pub rt_running: usize,
    /// The oldest real-time task that waits.
    pub rt_next: Option<TaskView>,
    /// Best-effort queues are preempted, or on the way to be.
    pub preempted: bool,
    /// They are, and the device has confirmed that nothing of them runs.
    pub quiesced: bool,
    /// Best-effort queues in the order in which their clients came.
    pub queues: &'a [QueueView],
}

impl View<'_> {
    /// Real-time tasks in all.
    pub fn rt(&self) -> usize {
        self.rt_waiting + self.rt_running
    }
}

/// A task: commands that belong together, such as one inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskView {
    /// When it was submitted.
    pub since: Duration,
    /// When it should be finished.
    pub deadline: Option<Duration>,
    /// Position behind its last command.
    pub end: Seq,
}

/// One best-effort queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueView {
    /// Names the client; never used again.
    pub id: u64,
    /// All commands before this have finished.
    pub completed: Seq,
    /// All commands before this have been submitted.
    pub submitted: Seq,
    /// The task that is running or next.
    pub task: Option<TaskView>,
    /// Share under [`FairShare`].
    pub weight: u32,
    /// Larger goes first under [`FixedPriority`].
    pub priority: i32,
    /// Device time that it has had, as far as the dispatcher can tell.
    pub served: Duration,
    /// It has had no work for its [`Config::idle_timeout`](crate::Config::idle_timeout).
    pub idle: bool,
}

impl QueueView {
    /// Whether it has commands that have not finished.
    pub fn is_ready(&self) -> bool {
        self.completed < self.submitted
    }
}

/// How far a best-effort queue may launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchLimit {
    /// Nothing.
    Closed,
    /// Commands before this position.
    Until(Seq),
    /// Everything.
    Open,
}

/// What a scheduler wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Best-effort queues are to be preempted, or to stay so.
    pub preempt: bool,
    /// Real-time tasks that wait may start.
    pub start: bool,
    /// Real-time kernels are padded with best-effort blocks.
    pub pad: bool,
    /// One for each of [`View::queues`].
    pub limits: Vec<LaunchLimit>,
    /// Decide again at this time, even if nothing happens.
    pub wake: Option<Duration>,
}

impl Plan {
    /// Resets the plan: everything runs, nothing is preempted. Keeps its memory.
    pub fn open(&mut self, queues: usize) {
        self.preempt = false;
        self.start = true;
        self.pad = false;
        self.limits.clear();
        self.limits.resize(queues, LaunchLimit::Open);
        self.wake = None;
    }

    /// Opens one queue and closes the others.
    pub fn only(&mut self, index: usize) {
        self.limits.fill(LaunchLimit::Closed);
        self.limits[index] = LaunchLimit::Open;
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self { preempt: false, start: true, pad: false, limits: Vec::new(), wake: None }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A queue with commands `completed..submitted`.
    pub(crate) fn queue(id: u64, completed: u64, submitted: u64) -> QueueView {
        QueueView {
            id,
            completed: Seq(completed),
            submitted: Seq(submitted),
            task: None,
            weight: 1,
            priority: 0,
            served: Duration::ZERO,
            idle: false,
        }
    }

    pub(crate) fn view(rt_waiting: usize, rt_running: usize, queues: &[QueueView]) -> View<'_> {
        let rt_next = (rt_waiting > 0).then_some(TaskView {
            since: Duration::ZERO,
            deadline: None,
            end: Seq(0),
        });
        View { rt_waiting, rt_running, rt_next, preempted: false, quiesced: false, queues }
    }

    pub(crate) fn decide(s: &mut dyn Scheduler, now: Duration, view: &View<'_>) -> Plan {
        let mut plan = Plan::default();
        plan.open(view.queues.len());
        s.decide(now, view, &mut plan);
        assert_eq!(plan.limits.len(), view.queues.len());
        plan
    }
}
