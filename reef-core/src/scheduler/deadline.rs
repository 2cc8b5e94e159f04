//! Earliest deadline first, real-time and best-effort tasks alike.

use crate::scheduler::policy::{LaunchLimit, Plan, RtTaskView, Scheduler, TaskView, View};
use std::time::Duration;

/// The task with the earliest deadline runs, alone.
///
/// A best-effort task without a deadline gets one `default` after its submission, so it doesn't
/// wait for ever; a real-time task without one is due at once. Nothing takes a real-time task back
/// from the device, so each starts when the one before has finished: a task that comes later waits
/// for no more than that one, at the price of a gap between two tasks.
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

/// Returns the deadline and the index of the most urgent real-time task; the older one of equals.
fn rt_first(waiting: &[RtTaskView]) -> Option<(Duration, usize)> {
    let due = |task: &RtTaskView| task.deadline.unwrap_or(task.since);
    waiting.iter().enumerate().map(|(index, task)| (due(task), index)).min()
}

impl Scheduler for EarliestDeadline {
    fn name(&self) -> &'static str {
        "deadline"
    }

    fn decide(&mut self, _: Duration, view: &View<'_>, plan: &mut Plan) {
        let ready = view.queues.iter().enumerate().filter(|(_, q)| q.is_ready());
        let first = ready.map(|(index, q)| (self.due(q.task), index)).min();
        let rt_first = rt_first(view.rt_waiting)
            .filter(|(rt_due, _)| first.is_none_or(|(be_due, _)| *rt_due <= be_due));
        plan.preempt = view.rt_running > 0 || rt_first.is_some();
        plan.start.clear();
        plan.start.extend(rt_first.map(|(_, index)| index).filter(|_| view.rt_running == 0));
        if let Some((_, index)) = first {
            // After its first task comes another deadline.
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
    fn earliest_deadline_runs() {
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
    fn task_without_a_deadline_does_not_wait_for_ever() {
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
            let waiting = [rt(10, rt_deadline)];
            let plan = decide(&mut edf, ms(10), &View::new(&waiting, 0, &queues));
            assert_eq!((!plan.start.is_empty(), plan.preempt), (starts, starts), "{rt_deadline:?}");
        }
    }

    fn rt(since: u64, deadline: Option<u64>) -> RtTaskView {
        RtTaskView { deadline: deadline.map(ms), ..RtTaskView::new(ms(since)) }
    }

    #[test]
    fn most_urgent_waiting_real_time_task_starts() {
        let (second, soon, now) = (rt(0, Some(1000)), rt(1, Some(2)), rt(1, None));
        let table: [(&[RtTaskView], usize, &[usize]); 7] = [
            (&[], 0, &[]),
            (&[second], 0, &[0]),
            (&[second, soon], 0, &[1]),
            (&[soon, second], 0, &[0]),
            (&[second, soon, now], 0, &[2]), // due since it was submitted
            (&[soon, rt(1, Some(2))], 0, &[0]),
            (&[second, soon], 1, &[]), // the next one when that has finished
        ];
        for (waiting, running, start) in table {
            let view = View::new(waiting, running, &[]);
            let plan = decide(&mut EarliestDeadline::default(), ms(1), &view);
            assert_eq!(plan.start, start, "{waiting:?} after {running}");
        }
    }

    #[test]
    fn urgent_real_time_task_overtakes_an_older_one() {
        let queues = [due(0, 0, Some(30))];
        let waiting = [rt(0, Some(1000)), rt(1, Some(2))];
        let mut edf = EarliestDeadline::default();
        let plan = decide(&mut edf, ms(1), &View::new(&waiting, 0, &queues));
        assert_eq!((plan.start, plan.preempt), (vec![1], true));
        let plan = decide(&mut edf, ms(1), &View::new(&waiting[..1], 0, &queues));
        assert_eq!((plan.start, plan.preempt), (vec![], false));
    }
}
