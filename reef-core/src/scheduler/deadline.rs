//! Earliest deadline first, real-time and best-effort tasks alike.

use crate::backend::info::Seq;
use crate::scheduler::policy::{LaunchLimit, Plan, QueueView, RtTaskView, Scheduler, View};
use std::time::Duration;

/// The task with the earliest deadline runs, alone.
///
/// A best-effort task without a deadline gets one `default` after it has become the first of its
/// queue, so it doesn't wait for ever, and a long queue doesn't keep real-time work waiting. A
/// command that belongs to no task counts as a task of its own. A real-time task without a deadline
/// is due at once. Nothing takes a real-time task back from the device, so each starts when the one
/// before has finished: a task that comes later waits for no more than that one, at the price of a
/// gap between two tasks.
///
/// ```
/// use reef_core::{Device, Dispatcher, scheduler::EarliestDeadline};
/// use reef_cpu::Cpu;
/// use std::time::Duration;
///
/// let scheduler = EarliestDeadline::default_deadline(Duration::from_millis(200));
/// let dispatcher = Dispatcher::start(&Cpu::open(0, "units=1")?, scheduler)?;
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct EarliestDeadline {
    default: Duration,
    /// First tasks of the queues that have work.
    fronts: Vec<Front>,
}

/// The first task of a queue.
#[derive(Debug, Clone, Copy)]
struct Front {
    queue: u64,
    /// Its end; of a command without a task, its position.
    at: Seq,
    /// Time at which it was seen first.
    since: Duration,
}

impl Front {
    fn of(queue: &QueueView, now: Duration) -> Self {
        let at = queue.task.map_or(queue.completed, |task| task.end);
        Self { queue: queue.id, at, since: now }
    }

    fn is_of(&self, queue: &QueueView) -> bool {
        let Self { queue: id, at, .. } = Self::of(queue, self.since);
        (id, at) == (self.queue, self.at) && queue.is_ready()
    }
}

impl Default for EarliestDeadline {
    fn default() -> Self {
        Self::default_deadline(Duration::from_secs(1))
    }
}

impl EarliestDeadline {
    /// Gives best-effort tasks without a deadline this much time.
    pub fn default_deadline(default: Duration) -> Self {
        Self { default, fronts: Vec::new() }
    }

    /// Notes since when each queue has had its first task.
    fn note_fronts(&mut self, now: Duration, queues: &[QueueView]) {
        self.fronts.retain(|front| queues.iter().any(|queue| front.is_of(queue)));
        for queue in queues.iter().filter(|queue| queue.is_ready()) {
            if !self.fronts.iter().any(|front| front.queue == queue.id) {
                self.fronts.push(Front::of(queue, now));
            }
        }
    }

    fn due(&self, queue: &QueueView, now: Duration) -> Duration {
        let front = self.fronts.iter().find(|front| front.queue == queue.id);
        let since = front.map_or(now, |front| front.since);
        let deadline = queue.task.and_then(|task| task.deadline);
        deadline.unwrap_or(since.saturating_add(self.default))
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

    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan) {
        self.note_fronts(now, view.queues);
        let ready = view.queues.iter().enumerate().filter(|(_, q)| q.is_ready());
        let first = ready.map(|(index, q)| (self.due(q, now), index)).min();
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
    use crate::scheduler::policy::TaskView;
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
            "due 50 ms after it was seen first"
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

    /// Real-time tasks that follow each other, next to a queue that always has work.
    fn starts_next_to(queue_at: impl Fn(Seq) -> QueueView) -> usize {
        let (mut edf, mut done) = (EarliestDeadline::default(), Seq(0));
        let starts = (0..2_000).filter(|&at| {
            let now = 5_000 + at * 10;
            let waiting = [rt(now, None)];
            let queues = [queue_at(done)];
            let plan = decide(&mut edf, ms(now), &View::new(&waiting, 0, &queues));
            done.0 += u64::from(plan.start.is_empty()); // best-effort work has the device
            !plan.start.is_empty()
        });
        starts.count()
    }

    #[test]
    fn commands_without_a_task_do_not_starve_real_time_work() {
        let starts = starts_next_to(|Seq(done)| queue(0, done, done + 8));
        assert!((1_970..2_000).contains(&starts), "one command a second, {starts} of 2,000 tasks");
    }

    /// All of the queue's tasks were submitted before the first real-time one.
    #[test]
    fn old_backlog_does_not_starve_real_time_work() {
        let task = |done| TaskView::new(ms(0), Seq(done + 1));
        let starts = starts_next_to(|Seq(done)| QueueView {
            task: Some(task(done)),
            ..queue(0, done, done + 1_000)
        });
        assert!((1_970..2_000).contains(&starts), "one task a second, {starts} of 2,000 tasks");
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
