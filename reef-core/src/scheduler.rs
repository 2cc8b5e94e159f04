//! Who may run: a [`Scheduler`] decides, the [`Dispatcher`](crate::Dispatcher) applies.
//!
//! A scheduler sees numbers and gives numbers: no callbacks, no clock of its own, no I/O. So each is
//! tested with tables, simulated, and replaced without touching what moves the work.
//!
//! | scheduler | real-time work | best-effort work meanwhile | source |
//! |---|---|---|---|
//! | [`Reef`] | at once | evicted and reset; pads real-time kernels | REEF, section 4 and 5 |
//! | [`Reef::without_padding`] | at once | evicted and reset | REEF's RESET |
//! | [`WaitBased`] | when running blocks have ended | evicted | REEF's WAIT |
//! | [`Streams`] | at once, same priority | runs on | REEF's STREAM |
//! | [`StreamPriority`] | at once, higher priority | runs on | CUDA's stream priorities |
//! | [`Sequential`] | when the running task has ended | one task at a time | REEF's SEQ |
//! | [`RtOnly`] | at once | never runs | REEF's RT |
//! | [`FixedPriority`] | at once | highest priority first, ageing | |
//! | [`EarliestDeadline`] | by deadline | by deadline | |
//! | [`FairShare`] | at once | by weight | |

mod baseline;
mod deadline;
mod fair;
mod priority;
mod reef;

pub use baseline::{RtOnly, Sequential, StreamPriority, Streams, WaitBased};
pub use deadline::EarliestDeadline;
pub use fair::FairShare;
pub use priority::FixedPriority;
pub use reef::Reef;

use crate::{PreemptLevel, Priority, Seq};
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

/// A scheduler by the name that [`Scheduler::name`] gives, with its defaults.
pub fn by_name(name: &str) -> Option<Box<dyn Scheduler>> {
    let all: [Box<dyn Scheduler>; 10] = [
        Box::new(RtOnly),
        Box::new(Sequential::default()),
        Box::new(Streams),
        Box::new(StreamPriority),
        Box::new(WaitBased::default()),
        Box::new(Reef::without_padding()),
        Box::new(Reef::default()),
        Box::new(FixedPriority::default()),
        Box::new(EarliestDeadline::default()),
        Box::new(FairShare::default()),
    ];
    all.into_iter().find(|scheduler| scheduler.name() == name)
}

/// Names that [`by_name`] knows: REEF's baselines, REEF, the others.
pub const NAMES: [&str; 10] = [
    "rt-only",
    "sequential",
    "streams",
    "stream-priority",
    "wait-based",
    "reset",
    "reef",
    "priority",
    "deadline",
    "fair-share",
];

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

    #[test]
    fn every_name_is_known_and_its_own() {
        for name in NAMES {
            assert_eq!(by_name(name).expect(name).name(), name);
        }
        assert!(by_name("reaf").is_none());
    }

    /// Whatever the scheduler: with one ready queue and no real-time work, that queue runs.
    #[test]
    fn work_is_conserved() {
        for name in NAMES.into_iter().filter(|&name| name != "rt-only") {
            let mut scheduler = by_name(name).expect(name);
            let queues = [queue(0, 5, 5), queue(1, 0, 3)];
            let plan = decide(&mut *scheduler, ms(1), &view(0, 0, &queues));
            assert!(!plan.preempt && plan.limits[1] != LaunchLimit::Closed, "{name}: {plan:?}");
        }
    }

    /// Whatever the scheduler: a real-time task on an otherwise idle device starts.
    #[test]
    fn real_time_work_starts_on_an_idle_device() {
        for name in NAMES {
            let mut scheduler = by_name(name).expect(name);
            let queues = [queue(0, 5, 5)];
            let idle = View { quiesced: true, preempted: true, ..view(1, 0, &queues) };
            let plan = decide(&mut *scheduler, ms(1), &idle);
            assert!(plan.start, "{name}: {plan:?}");
        }
    }
}
