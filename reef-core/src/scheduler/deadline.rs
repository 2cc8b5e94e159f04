//! Earliest deadline first, real-time and best-effort tasks alike.

use crate::scheduler::policy::{LaunchLimit, Plan, Scheduler, TaskView, View};
use std::time::Duration;

/// The task with the earliest deadline runs, alone.
///
/// A best-effort task without a deadline gets one `default` after its submission, so it doesn't wait
/// for ever; a real-time task without one is due at once.
#[derive(Debug, Clone, Copy)]
pub struct EarliestDeadline {
    default: Duration,
}

impl Default for EarliestDeadline {
    fn default() -> Self {
        Self { default: Duration::from_secs(1) }
    }
}

impl EarliestDeadline {
    /// Gives best-effort tasks without a deadline this much time.
    pub fn default_deadline(default: Duration) -> Self {
        Self { default }
    }

    fn due(&self, task: Option<TaskView>) -> Duration {
        task.map_or(self.default, |task| {
            task.deadline.unwrap_or(task.since.saturating_add(self.default))
        })
    }
}

impl Scheduler for EarliestDeadline {
    fn name(&self) -> &'static str {
        "deadline"
    }

    fn decide(&mut self, _: Duration, view: &View<'_>, plan: &mut Plan) {
        let ready = view.queues.iter().enumerate().filter(|(_, q)| q.is_ready());
        let first = ready.map(|(index, q)| (self.due(q.task), index)).min();
        let rt_due = view.rt_next.map(|task| task.deadline.unwrap_or(task.since));
        let rt_first = match (rt_due, first) {
            (Some(rt), Some((be, _))) => rt <= be,
            (Some(_), None) => true,
            (None, _) => false,
        };
        plan.start = rt_first;
        plan.preempt = view.rt_running > 0 || rt_first;
        if let Some((_, index)) = first {
            // Behind its first task comes another deadline.
            let end = view.queues[index].task.map(|task| task.end);
            plan.limits.fill(LaunchLimit::Closed);
            plan.limits[index] = end.map_or(LaunchLimit::Open, LaunchLimit::Until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::info::Seq;
    use crate::scheduler::policy::QueueView;
    use crate::scheduler::policy::tests::{decide, ms, queue, view};

    fn due(id: u64, since: u64, deadline: Option<u64>) -> QueueView {
        let task = TaskView { since: ms(since), deadline: deadline.map(ms), end: Seq(1) };
        QueueView { task: Some(task), ..queue(id, 0, 1) }
    }

    #[test]
    fn the_earliest_deadline_runs() {
        let mut edf = EarliestDeadline::default_deadline(ms(50));
        let queues = [due(0, 0, Some(90)), due(1, 0, Some(30)), due(2, 0, None)];
        let plan = decide(&mut edf, ms(0), &view(0, 0, &queues));
        assert_eq!(
            plan.limits,
            [LaunchLimit::Closed, LaunchLimit::Until(Seq(1)), LaunchLimit::Closed]
        );
        let plan = decide(&mut edf, ms(0), &view(0, 0, &[queues[0], queues[2]]));
        assert_eq!(
            plan.limits,
            [LaunchLimit::Closed, LaunchLimit::Until(Seq(1))],
            "due 50 ms after its submission"
        );
    }

    /// Newcomers with short deadlines every 10 ms; the old task without one still runs.
    #[test]
    fn a_task_without_a_deadline_does_not_wait_for_ever() {
        let mut edf = EarliestDeadline::default_deadline(ms(200));
        let runs = (0..200).map(|i| i * 10).find(|&now| {
            let queues = [due(0, 0, None), due(1 + now, now, Some(now + 20))];
            decide(&mut edf, ms(now), &view(0, 0, &queues)).limits[0] != LaunchLimit::Closed
        });
        assert_eq!(runs, Some(180), "when 200 ms are nearer than the newcomer's deadline");
    }

    #[test]
    fn real_time_tasks_have_deadlines_too() {
        let mut edf = EarliestDeadline::default();
        let queues = [due(0, 0, Some(30))];
        for (rt_deadline, starts) in [(Some(20), true), (Some(40), false), (None, true)] {
            let rt_next =
                Some(TaskView { since: ms(10), deadline: rt_deadline.map(ms), end: Seq(0) });
            let plan = decide(&mut edf, ms(10), &View { rt_next, ..view(1, 0, &queues) });
            assert_eq!((plan.start, plan.preempt), (starts, starts), "{rt_deadline:?}");
        }
    }
}
