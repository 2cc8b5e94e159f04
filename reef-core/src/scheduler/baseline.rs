//! REEF's baselines, so that they can be compared under the same load.

use crate::backend::info::{PreemptLevel, Priority, Seq};
use crate::scheduler::policy::{LaunchLimit, Plan, Scheduler, View};
use std::time::Duration;

/// Best-effort work never runs: the lower bound of real-time latency.
///
/// ```
/// use reef_core::Seq;
/// use reef_core::scheduler::{LaunchLimit, Plan, QueueView, RtOnly, Scheduler, View};
/// use std::time::Duration;
///
/// let queues = [QueueView::new(1, Seq(0), Seq(5))];
/// let (view, mut plan) = (View::new(&[], 0, &queues), Plan::default());
/// plan.open(&view);
/// RtOnly.decide(Duration::ZERO, &view, &mut plan);
/// assert_eq!(plan.limits, [LaunchLimit::Closed]);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct RtOnly;

impl Scheduler for RtOnly {
    fn name(&self) -> &'static str {
        "rt-only"
    }

    fn level(&self) -> PreemptLevel {
        PreemptLevel::HostQueue
    }

    fn decide(&mut self, _: Duration, _: &View<'_>, plan: &mut Plan) {
        plan.limits.fill(LaunchLimit::Closed);
    }
}

/// Real-time work is one more stream: no priority, no preemption.
///
/// ```
/// use reef_core::Seq;
/// use reef_core::scheduler::{LaunchLimit, Plan, QueueView, Scheduler, Streams, View};
/// use std::time::Duration;
///
/// let queues = [QueueView::new(1, Seq(0), Seq(5))];
/// let (view, mut plan) = (View::new(&[], 0, &queues), Plan::default());
/// plan.open(&view);
/// Streams.decide(Duration::ZERO, &view, &mut plan);
/// assert_eq!((plan.preempt, plan.limits[0]), (false, LaunchLimit::Open));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Streams;

impl Scheduler for Streams {
    fn name(&self) -> &'static str {
        "streams"
    }

    fn level(&self) -> PreemptLevel {
        PreemptLevel::HostQueue
    }

    fn rt_priority(&self) -> Priority {
        Priority::BestEffort
    }

    fn decide(&mut self, _: Duration, _: &View<'_>, _: &mut Plan) {}
}

/// Real-time work has a stream of a higher priority: what a driver offers without preemption.
///
/// ```
/// use reef_core::Seq;
/// use reef_core::scheduler::{LaunchLimit, Plan, QueueView, Scheduler, StreamPriority, View};
/// use std::time::Duration;
///
/// let queues = [QueueView::new(1, Seq(0), Seq(5))];
/// let (view, mut plan) = (View::new(&[], 0, &queues), Plan::default());
/// plan.open(&view);
/// StreamPriority.decide(Duration::ZERO, &view, &mut plan);
/// assert_eq!((plan.preempt, plan.limits[0]), (false, LaunchLimit::Open));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamPriority;

impl Scheduler for StreamPriority {
    fn name(&self) -> &'static str {
        "stream-priority"
    }

    fn level(&self) -> PreemptLevel {
        PreemptLevel::HostQueue
    }

    fn decide(&mut self, _: Duration, _: &View<'_>, _: &mut Plan) {}
}

/// Launched best-effort work is evicted; real-time work waits until its running blocks have ended.
///
/// ```
/// use reef_core::Seq;
/// use reef_core::scheduler::{Plan, QueueView, RtTaskView, Scheduler, View, WaitBased};
/// use std::time::Duration;
///
/// let waiting = [RtTaskView::new(Duration::ZERO)];
/// let queues = [QueueView::new(1, Seq(0), Seq(5))];
/// let (view, mut plan) = (View::new(&waiting, 0, &queues), Plan::default());
/// plan.open(&view);
/// WaitBased::default().decide(Duration::ZERO, &view, &mut plan);
/// assert!(plan.preempt && plan.start.is_empty(), "the queue has not stopped yet");
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct WaitBased {
    /// The present preemption was confirmed; until it ends, tasks start at once.
    confirmed: bool,
}

impl Scheduler for WaitBased {
    fn name(&self) -> &'static str {
        "wait-based"
    }

    fn level(&self) -> PreemptLevel {
        PreemptLevel::DeviceQueue
    }

    fn decide(&mut self, _: Duration, view: &View<'_>, plan: &mut Plan) {
        plan.preempt = view.rt() > 0;
        self.confirmed = plan.preempt && view.preempted && (self.confirmed || view.quiesced);
        if !self.confirmed && !view.queues.is_empty() {
            plan.start.clear();
        }
    }
}

/// One task at a time on the whole device, in order of arrival, real-time tasks first in line.
///
/// ```
/// use reef_core::Seq;
/// use reef_core::scheduler::{LaunchLimit, Plan, QueueView, Scheduler, Sequential, View};
/// use std::time::Duration;
///
/// let queues = [QueueView::new(1, Seq(0), Seq(5))];
/// let (view, mut plan) = (View::new(&[], 0, &queues), Plan::default());
/// plan.open(&view);
/// Sequential::default().decide(Duration::ZERO, &view, &mut plan);
/// assert_eq!(plan.limits, [LaunchLimit::Until(Seq(5))], "its commands are one task");
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Sequential {
    /// The queue whose task runs, and where that task ends.
    running: Option<(u64, Seq)>,
}

impl Sequential {
    /// The task that runs, if it has not finished and its client is still there.
    fn still_running(&self, view: &View<'_>) -> Option<(usize, Seq)> {
        let (id, end) = self.running?;
        let index = view.queues.iter().position(|q| q.id == id)?;
        (view.queues[index].completed < end).then_some((index, end))
    }

    /// The queue whose task waits longest, and where that task ends.
    fn next(view: &View<'_>) -> Option<(usize, Seq)> {
        let ready = view.queues.iter().enumerate().filter(|(_, q)| q.is_ready());
        let (index, q) = ready.min_by_key(|(_, q)| q.task.map_or(Duration::ZERO, |t| t.since))?;
        Some((index, q.task.map_or(q.submitted, |task| task.end)))
    }
}

impl Scheduler for Sequential {
    fn name(&self) -> &'static str {
        "sequential"
    }

    fn level(&self) -> PreemptLevel {
        PreemptLevel::HostQueue
    }

    fn decide(&mut self, _: Duration, view: &View<'_>, plan: &mut Plan) {
        let running = self.still_running(view);
        let chosen = if view.rt() > 0 { running } else { running.or_else(|| Self::next(view)) };
        if chosen.is_some() {
            plan.start.clear();
        }
        plan.limits.fill(LaunchLimit::Closed);
        if let Some((index, end)) = chosen {
            plan.limits[index] = LaunchLimit::Until(end);
        }
        self.running = chosen.map(|(index, end)| (view.queues[index].id, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::policy::tests::{decide, ms, queue, view};
    use crate::scheduler::policy::{QueueView, TaskView};

    fn task(queue: QueueView, since: u64, end: u64) -> QueueView {
        let task = TaskView { since: ms(since), deadline: None, end: Seq(end) };
        QueueView { task: Some(task), ..queue }
    }

    #[test]
    fn rt_only_runs_no_best_effort_work() {
        let queues = [queue(0, 0, 9)];
        assert_eq!(decide(&mut RtOnly, ms(0), &view(0, 0, &queues)).limits, [LaunchLimit::Closed]);
    }

    #[test]
    fn streams_preempt_nothing() {
        let queues = [queue(0, 0, 9)];
        for (mut streams, priority) in both_streams() {
            let plan = decide(&mut *streams, ms(0), &view(3, 1, &queues));
            assert_eq!(
                (plan.preempt, plan.start, plan.limits),
                (false, vec![0, 1, 2], vec![LaunchLimit::Open])
            );
            assert_eq!(streams.rt_priority(), priority);
        }
    }

    fn both_streams() -> [(Box<dyn Scheduler>, Priority); 2] {
        [(Box::new(Streams), Priority::BestEffort), (Box::new(StreamPriority), Priority::RealTime)]
    }

    #[test]
    fn wait_based_starts_after_confirmation() {
        let queues = [queue(0, 0, 9)];
        let mut wait = WaitBased::default();
        for (preempted, quiesced, start) in
            [(false, false, false), (true, false, false), (true, true, true)]
        {
            let v = View { preempted, quiesced, ..view(1, 0, &queues) };
            let plan = decide(&mut wait, ms(0), &v);
            assert_eq!((plan.preempt, plan.start == [0]), (true, start));
        }
        assert!(!decide(&mut wait, ms(0), &view(0, 0, &queues)).preempt);
    }

    #[test]
    fn sequential_finishes_a_task_before_the_next() {
        let mut seq = Sequential::default();
        let first = [task(queue(7, 0, 20), 2, 10), task(queue(8, 0, 20), 1, 12)];
        let plan = decide(&mut seq, ms(3), &view(0, 0, &first));
        assert_eq!(
            plan.limits,
            [LaunchLimit::Closed, LaunchLimit::Until(Seq(12))],
            "the older task"
        );

        let plan = decide(&mut seq, ms(4), &view(1, 0, &first));
        assert_eq!(
            plan.limits,
            [LaunchLimit::Closed, LaunchLimit::Until(Seq(12))],
            "it is not interrupted"
        );
        assert!(plan.start.is_empty());

        let done = [first[0], task(queue(8, 12, 20), 3, 20)];
        let plan = decide(&mut seq, ms(5), &view(1, 0, &done));
        assert_eq!(plan.limits, [LaunchLimit::Closed; 2], "real-time work is next in line");
        assert_eq!(plan.start, [0]);

        let plan = decide(&mut seq, ms(6), &view(0, 0, &done));
        assert_eq!(plan.limits, [LaunchLimit::Until(Seq(10)), LaunchLimit::Closed]);
    }

    #[test]
    fn sequential_forgets_a_dropped_client() {
        let mut seq = Sequential::default();
        decide(&mut seq, ms(0), &view(0, 0, &[task(queue(7, 0, 20), 0, 10)]));
        let plan = decide(&mut seq, ms(1), &view(0, 0, &[task(queue(9, 0, 5), 1, 5)]));
        assert_eq!(plan.limits, [LaunchLimit::Until(Seq(5))]);
    }
}
