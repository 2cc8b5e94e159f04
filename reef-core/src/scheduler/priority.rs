//! Fixed priority with ageing.

use crate::scheduler::policy::{LaunchLimit, Plan, QueueView, Scheduler, View};
use std::time::Duration;

/// The ready best-effort queues of the highest priority run; equals run together.
///
/// A task that has waited for `ageing` counts one priority higher, after twice that two, and so on:
/// no task waits for ever. Real-time work preempts all of them.
#[derive(Debug, Clone, Copy)]
pub struct FixedPriority {
    ageing: Duration,
}

impl Default for FixedPriority {
    fn default() -> Self {
        Self { ageing: Duration::from_millis(100) }
    }
}

impl FixedPriority {
    /// Lets waiting tasks rise by one priority in this time (at least 1 µs).
    pub fn ageing(ageing: Duration) -> Self {
        Self { ageing: ageing.max(Duration::from_micros(1)) }
    }

    fn effective(&self, now: Duration, queue: &QueueView) -> i64 {
        let waited = queue.task.map_or(Duration::ZERO, |task| now.saturating_sub(task.since));
        i64::from(queue.priority) + (waited.as_micros() / self.ageing.as_micros()) as i64
    }
}

impl Scheduler for FixedPriority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan) {
        plan.preempt = view.rt() > 0;
        let ready = view.queues.iter().filter(|q| q.is_ready());
        let Some(highest) = ready.map(|q| self.effective(now, q)).max() else { return };
        for (limit, queue) in plan.limits.iter_mut().zip(view.queues) {
            if queue.is_ready() && self.effective(now, queue) < highest {
                *limit = LaunchLimit::Closed;
                plan.wake = Some(now.saturating_add(self.ageing));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::info::Seq;
    use crate::scheduler::policy::TaskView;
    use crate::scheduler::policy::tests::{decide, ms, queue, view};

    fn waiting(id: u64, priority: i32, since: u64) -> QueueView {
        let task = TaskView { since: ms(since), deadline: None, end: Seq(1) };
        QueueView { priority, task: Some(task), ..queue(id, 0, 1) }
    }

    #[test]
    fn the_highest_ready_priority_runs_and_equals_run_together() {
        use LaunchLimit::{Closed, Open};
        let table = [
            (vec![waiting(0, 1, 0), waiting(1, 2, 0)], vec![Closed, Open]),
            (vec![waiting(0, 2, 0), waiting(1, 2, 0), waiting(2, 0, 0)], vec![Open, Open, Closed]),
            (vec![waiting(0, 1, 0), QueueView { priority: 9, ..queue(1, 4, 4) }], vec![Open, Open]),
        ];
        for (queues, gates) in table {
            let plan = decide(&mut FixedPriority::default(), ms(0), &view(0, 0, &queues));
            assert_eq!(plan.limits, gates, "{queues:?}");
        }
    }

    /// A newcomer of high priority every 10 ms; the old task still runs.
    #[test]
    fn a_low_task_rises_until_it_runs() {
        let mut scheduler = FixedPriority::ageing(ms(100));
        let runs = (0..200).map(|i| i * 10).find(|&now| {
            let queues = [waiting(0, 0, 0), waiting(1 + now, 5, now)];
            decide(&mut scheduler, ms(now), &view(0, 0, &queues)).limits[0] == LaunchLimit::Open
        });
        assert_eq!(runs, Some(500));
    }
}
