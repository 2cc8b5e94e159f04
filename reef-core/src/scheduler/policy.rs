//! The `Scheduler` trait, its input (the view) and its output (the plan).

use crate::backend::info::{Caps, PreemptLevel, Priority, Seq};
use std::fmt::Debug;
use std::time::Duration;

/// Decides which queues run and whether real-time work may start.
///
/// ```
/// use reef_core::scheduler::{Plan, Scheduler, View};
/// use std::time::Duration;
///
/// /// Best-effort work is preempted while a real-time task is there.
/// #[derive(Debug)]
/// struct OneClass;
///
/// impl Scheduler for OneClass {
///     fn name(&self) -> &'static str {
///         "one-class"
///     }
///
///     fn decide(&mut self, _now: Duration, view: &View<'_>, plan: &mut Plan) {
///         plan.preempt = view.rt() > 0;
///     }
/// }
///
/// let (view, mut plan) = (View::new(&[], 1, &[]), Plan::default());
/// plan.open(&view);
/// OneClass.decide(Duration::ZERO, &view, &mut plan);
/// assert!(plan.preempt, "the device has a real-time task");
/// ```
pub trait Scheduler: Debug + Send {
    /// Name of it in tables and commands.
    fn name(&self) -> &'static str;

    /// Returns the depth to which best-effort queues are preempted when [`Plan::preempt`] is set.
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

/// Scheduler behind a pointer: one that was chosen at run time, by its name for example.
impl<S: Scheduler + ?Sized> Scheduler for Box<S> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn level(&self) -> PreemptLevel {
        (**self).level()
    }

    fn rt_priority(&self) -> Priority {
        (**self).rt_priority()
    }

    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan) {
        (**self).decide(now, view, plan);
    }
}

/// Input of a scheduler. Times are on the device's clock.
///
/// ```
/// use reef_core::scheduler::{RtTaskView, View};
/// use std::time::Duration;
///
/// let waiting = [RtTaskView::new(Duration::from_millis(3))];
/// let view = View::new(&waiting, 1, &[]);
/// assert_eq!(view.rt(), 2, "one waits, and the device has one");
/// assert_eq!(view.rt_oldest(), Some(Duration::from_millis(3)));
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct View<'a> {
    /// Real-time tasks that have not been given to the device, in the order in which they were
    /// submitted.
    pub rt_waiting: &'a [RtTaskView],
    /// Real-time tasks that the device has. It runs them one after the other, in the order in which
    /// they were started; nothing takes them back.
    pub rt_running: usize,
    /// Real-time tasks that have ended since the view before, oldest first.
    pub rt_ended: &'a [RtEnd],
    /// Best-effort queues are preempted, or on the way to be.
    pub preempted: bool,
    /// They are, and the device has confirmed that nothing of them runs.
    pub quiesced: bool,
    /// They run capped next to real-time work, which counts as preempted.
    pub capped: bool,
    /// Graphs can run on parts of the device ([`Width::Parts`]).
    pub has_parts: bool,
    /// Caps of best-effort queues next to real-time work that lasts, if the device has some and can
    /// stop them there.
    pub caps: Option<Caps>,
    /// Best-effort queues in the order in which their clients came.
    pub queues: &'a [QueueView],
}

impl<'a> View<'a> {
    /// These tasks and queues, nothing preempted, on a device without parts.
    pub fn new(rt_waiting: &'a [RtTaskView], rt_running: usize, queues: &'a [QueueView]) -> Self {
        Self {
            rt_waiting,
            rt_running,
            rt_ended: &[],
            preempted: false,
            quiesced: false,
            capped: false,
            has_parts: false,
            caps: None,
            queues,
        }
    }

    /// Real-time tasks in all.
    pub fn rt(&self) -> usize {
        self.rt_waiting.len() + self.rt_running
    }

    /// Returns the time at which the oldest real-time task that waits was submitted.
    pub fn rt_oldest(&self) -> Option<Duration> {
        self.rt_waiting.first().map(|task| task.since)
    }
}

/// A real-time task that waits.
///
/// ```
/// use reef_core::scheduler::RtTaskView;
/// use std::time::Duration;
///
/// let mut task = RtTaskView::new(Duration::from_millis(3));
/// task.deadline = Some(Duration::from_millis(8));
/// assert_eq!((task.priority, task.in_budget), (0, false));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RtTaskView {
    /// Time of submission.
    pub since: Duration,
    /// Deadline, if there is one.
    pub deadline: Option<Duration>,
    /// Larger takes precedence under [`FixedPriority`](crate::scheduler::FixedPriority).
    pub priority: i32,
    /// Name of the [`Account`](crate::Account) that it is charged to.
    pub account: u64,
    /// Its account has a budget, of which some is left.
    pub in_budget: bool,
    /// Device time that tasks of that account have used.
    pub served: Duration,
}

impl RtTaskView {
    /// A task of priority 0 without a deadline, of account 0, which has used nothing and has no
    /// budget.
    pub const fn new(since: Duration) -> Self {
        let served = Duration::ZERO;
        Self { since, deadline: None, priority: 0, account: 0, in_budget: false, served }
    }
}

/// A real-time task that has ended.
///
/// ```
/// use reef_core::scheduler::{RtEnd, View};
/// use std::time::Duration;
///
/// let ended = [RtEnd { task: 7, submitted: Duration::ZERO, total: Duration::from_millis(2) }];
/// let mut view = View::new(&[], 0, &[]);
/// view.rt_ended = &ended;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtEnd {
    /// Name of its commands: those of one [`Task`](crate::Task) and its clones.
    pub task: u64,
    /// Time of submission.
    pub submitted: Duration,
    /// From submission until its end was noted.
    pub total: Duration,
}

/// A best-effort task: commands that belong together, such as one inference.
///
/// ```
/// use reef_core::{Seq, scheduler::TaskView};
/// use std::time::Duration;
///
/// let task = TaskView::new(Duration::ZERO, Seq(9)); // its last command is the one at 8
/// assert_eq!((task.end, task.deadline), (Seq(9), None));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskView {
    /// Time of submission.
    pub since: Duration,
    /// Deadline, if there is one.
    pub deadline: Option<Duration>,
    /// End position of its last command.
    pub end: Seq,
}

impl TaskView {
    /// A task without a deadline.
    pub fn new(since: Duration, end: Seq) -> Self {
        Self { since, deadline: None, end }
    }
}

/// One best-effort queue.
///
/// ```
/// use reef_core::{Seq, scheduler::QueueView};
///
/// assert!(QueueView::new(1, Seq(2), Seq(5)).is_ready(), "three commands have not finished");
/// assert!(!QueueView::new(1, Seq(5), Seq(5)).is_ready());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueView {
    /// Name of the client; never used again.
    pub id: u64,
    /// All commands before this have finished.
    pub completed: Seq,
    /// All commands before this have been submitted.
    pub submitted: Seq,
    /// The task that is running or next.
    pub task: Option<TaskView>,
    /// Share under [`FairShare`](crate::scheduler::FairShare).
    pub weight: u32,
    /// Larger takes precedence under [`FixedPriority`](crate::scheduler::FixedPriority).
    pub priority: i32,
    /// Device time that it has used, as far as the dispatcher can tell.
    pub served: Duration,
}

impl QueueView {
    /// A queue with commands `completed..submitted`, of weight 1 and priority 0.
    pub fn new(id: u64, completed: Seq, submitted: Seq) -> Self {
        Self {
            id,
            completed,
            submitted,
            task: None,
            weight: 1,
            priority: 0,
            served: Duration::ZERO,
        }
    }

    /// Returns whether it has commands that have not finished.
    pub fn is_ready(&self) -> bool {
        self.completed < self.submitted
    }
}

/// Upper bound of the positions that a best-effort queue may launch.
///
/// ```
/// use reef_core::Seq;
/// use reef_core::scheduler::{LaunchLimit, Plan, QueueView, View};
///
/// let queues = [QueueView::new(1, Seq(0), Seq(5))];
/// let (view, mut plan) = (View::new(&[], 0, &queues), Plan::default());
/// plan.open(&view);
/// assert_eq!(plan.limits, [LaunchLimit::Open]);
/// plan.limits[0] = LaunchLimit::Until(Seq(3)); // the commands at 0, 1 and 2
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchLimit {
    /// Nothing.
    Closed,
    /// Commands before this position.
    Until(Seq),
    /// Everything.
    Open,
}

/// Bound of the best-effort blocks that run at a time next to real-time work that lasts.
///
/// ```
/// use reef_core::scheduler::{Plan, Width};
///
/// let mut plan = Plan::default();
/// assert_eq!(plan.width, Width::Device);
/// plan.width = Width::Units { percent: 25 };
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Width {
    /// The device's own [caps](crate::Caps).
    #[default]
    Device,
    /// Also at most as many blocks as this part of the device has units, and at least one. Devices
    /// that pad kernel by kernel run as if it were not there.
    Units {
        /// Part of the units in percent.
        percent: u32,
    },
    /// The device's cap of short blocks, and graphs of each class run on a part of the units:
    /// real-time ones on the first, best-effort ones on the last. Where the parts overlap,
    /// priorities of streams decide. Devices without parts run as if it were
    /// [`Device`](Self::Device).
    Parts {
        /// Units of real-time graphs in percent, while best-effort work is there.
        real_time: u32,
        /// Units of best-effort graphs in percent.
        best_effort: u32,
    },
}

/// Output of a scheduler.
///
/// ```
/// use reef_core::scheduler::{Plan, RtTaskView, View};
/// use std::time::Duration;
///
/// let waiting = [RtTaskView::new(Duration::ZERO), RtTaskView::new(Duration::ZERO)];
/// let mut plan = Plan::default();
/// plan.open(&View::new(&waiting, 0, &[]));
/// assert_eq!(plan.start, [0, 1], "all start");
/// plan.start.truncate(1); // the second one waits
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// Best-effort queues are to be preempted, or to stay so.
    pub preempt: bool,
    /// The real-time tasks that start now, in this order: positions in [`View::rt_waiting`].
    ///
    /// All of them, oldest first, unless the scheduler changes it. A task that isn't in the list
    /// waits; positions that are out of range or come twice are skipped.
    pub start: Vec<usize>,
    /// Real-time kernels are padded with best-effort blocks.
    pub pad: bool,
    /// Bound of best-effort blocks next to them.
    pub width: Width,
    /// One for each of [`View::queues`].
    pub limits: Vec<LaunchLimit>,
    /// Decide again at this time, even if nothing happens.
    pub wake: Option<Duration>,
}

impl Plan {
    /// Resets the plan: everything of `view` runs, nothing is preempted. Keeps its memory.
    pub fn open(&mut self, view: &View<'_>) {
        self.preempt = false;
        self.start.clear();
        self.start.extend(0..view.rt_waiting.len());
        self.pad = false;
        self.width = Width::Device;
        self.limits.clear();
        self.limits.resize(view.queues.len(), LaunchLimit::Open);
        self.wake = None;
    }

    /// Decides again at this time, or before.
    pub(crate) fn wake_by(&mut self, at: Duration) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// Opens one queue and closes the others.
    ///
    /// # Panics
    ///
    /// If there is no queue of this index: [`limits`](field@Self::limits) has one entry for each.
    pub fn only(&mut self, index: usize) {
        self.limits.fill(LaunchLimit::Closed);
        self.limits[index] = LaunchLimit::Open;
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
        QueueView::new(id, Seq(completed), Seq(submitted))
    }

    /// A view of `rt_waiting` tasks that were submitted at 0.
    pub(crate) fn view(rt_waiting: usize, rt_running: usize, queues: &[QueueView]) -> View<'_> {
        const TASKS: [RtTaskView; 8] = [RtTaskView::new(Duration::ZERO); 8];
        View::new(&TASKS[..rt_waiting], rt_running, queues)
    }

    pub(crate) fn decide(s: &mut dyn Scheduler, now: Duration, view: &View<'_>) -> Plan {
        let mut plan = Plan::default();
        plan.open(view);
        s.decide(now, view, &mut plan);
        assert_eq!(plan.limits.len(), view.queues.len());
        plan
    }
}
