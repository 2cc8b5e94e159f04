//! Fixed priority with ageing.

use crate::scheduler::policy::{LaunchLimit, Plan, QueueView, Scheduler, View};
use std::cmp::Reverse;
use std::time::Duration;

/// Real-time tasks that the device has at once: the one that runs, and the next.
const RT_AHEAD: usize = 2;

/// Real-time tasks start by priority, and the ready best-effort queues of the highest priority run;
/// equals run together.
///
/// A task that has waited for `ageing` counts one priority higher, after twice that two, and so on:
/// no task waits for ever. Real-time work preempts all best-effort work. The device gets one
/// real-time task more than it runs, so that it never waits for the host: a task of a high priority
/// waits for at most two others.
///
/// ```
/// use reef_core::{ClientConfig, Device, Dispatcher, scheduler::FixedPriority};
/// use reef_cpu::Cpu;
///
/// let dispatcher = Dispatcher::start(&Cpu::open(0, "units=1")?, FixedPriority::default())?;
/// let first = dispatcher.best_effort(ClientConfig::default().priority(2))?;
/// let second = dispatcher.best_effort(ClientConfig::default().priority(1))?;
/// # Ok::<(), reef_core::Error>(())
/// ```
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
        self.aged(queue.priority, now, queue.task.map_or(now, |task| task.since))
    }

    /// A priority, risen since a task was submitted.
    fn aged(&self, priority: i32, now: Duration, since: Duration) -> i64 {
        let waited = now.saturating_sub(since);
        i64::from(priority) + (waited.as_micros() / self.ageing.as_micros()) as i64
    }

    /// Orders the real-time tasks that start: the highest first, the older one of equals.
    fn start(&self, now: Duration, view: &View<'_>, start: &mut Vec<usize>) {
        let key = |&index: &usize| {
            let task = &view.rt_waiting[index];
            Reverse(self.aged(task.priority, now, task.since))
        };
        start.sort_by_key(key); // is stable
        start.truncate(RT_AHEAD.saturating_sub(view.rt_running));
    }
}

impl Scheduler for FixedPriority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan) {
        plan.preempt = view.rt() > 0;
        self.start(now, view, &mut plan.start);
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
    use crate::scheduler::policy::tests::{decide, ms, queue, view};
    use crate::scheduler::policy::{RtTaskView, TaskView};

    fn waiting(id: u64, priority: i32, since: u64) -> QueueView {
        let task = TaskView { since: ms(since), deadline: None, end: Seq(1) };
        QueueView { priority, task: Some(task), ..queue(id, 0, 1) }
    }

    #[test]
    fn highest_ready_priority_runs_and_equals_run_together() {
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

    fn rt(since: u64, priority: i32) -> RtTaskView {
        RtTaskView { priority, ..RtTaskView::new(ms(since)) }
    }

    #[test]
    fn real_time_tasks_start_by_priority_with_two_on_the_device() {
        let (low, high, old) = (rt(99, 0), rt(100, 2), rt(0, 0));
        let table: [(&[RtTaskView], usize, &[usize]); 8] = [
            (&[], 0, &[]),
            (&[low, high], 0, &[1, 0]),
            (&[high, low], 0, &[0, 1]),
            (&[low, low, high], 0, &[2, 0]),
            (&[low, low, high], 1, &[2]),
            (&[low, low, high], 2, &[]),
            (&[low, low], 0, &[0, 1]),
            (&[high, rt(100, 1), old], 0, &[0, 2]), // it has risen by 2 in 100 ms, and is older
        ];
        for (waiting, running, start) in table {
            let mut scheduler = FixedPriority::ageing(ms(50));
            let plan = decide(&mut scheduler, ms(100), &View::new(waiting, running, &[]));
            assert_eq!(plan.start, start, "{waiting:?} after {running}");
        }
    }

    /// A newcomer of high priority every 10 ms; the old real-time task still starts.
    #[test]
    fn low_real_time_task_rises_until_it_starts() {
        let mut scheduler = FixedPriority::ageing(ms(100));
        let starts = (0..200).map(|i| i * 10).find(|&now| {
            let waiting = [rt(0, 0), rt(now, 5)];
            decide(&mut scheduler, ms(now), &View::new(&waiting, 1, &[])).start == [0]
        });
        assert_eq!(starts, Some(500));
    }

    /// A newcomer of high priority every 10 ms; the old task still runs.
    #[test]
    fn low_task_rises_until_it_runs() {
        let mut scheduler = FixedPriority::ageing(ms(100));
        let runs = (0..200).map(|i| i * 10).find(|&now| {
            let queues = [waiting(0, 0, 0), waiting(1 + now, 5, now)];
            decide(&mut scheduler, ms(now), &view(0, 0, &queues)).limits[0] == LaunchLimit::Open
        });
        assert_eq!(runs, Some(500));
    }
}
