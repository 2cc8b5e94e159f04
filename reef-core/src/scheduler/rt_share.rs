//! Real-time clients take turns, and best-effort work keeps a share of the device.

use crate::backend::info::{PreemptLevel, Priority};
use crate::scheduler::policy::{Plan, RtTaskView, Scheduler, View};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time in which best-effort work gets its reserve, where real-time work would take all.
const WINDOW: Duration = Duration::from_millis(100);

/// Longest time of which best-effort work is owed its reserve: without a bound, an hour of tasks
/// with a budget would keep those without one waiting for minutes.
const MAX_KEPT_OFF: Duration = Duration::from_secs(1);

/// Time for which an empty best-effort queue still counts as one that has work: it may be about to
/// get more.
const GRACE: Duration = Duration::from_millis(1);

/// Number of accounts above which those that owe nothing are forgotten.
const MAX_ACCOUNTS: usize = 256;

/// Guards the shares of a device's clients, around another scheduler.
///
/// Nothing takes a real-time task back from the device, so only one is there at a time, and the
/// next is chosen when it has ended. A task waits for one other, however many clients keep asking.
///
/// Tasks of accounts [in their budget](RtTaskView::in_budget) go first. Among equals the account
/// goes first that has used the least device time (start-time fair queueing, Goyal et al. 1996). An
/// account that comes back from being idle starts level with the one that was served last.
/// Differences of less than a task count as none, and then the account goes first that has waited
/// longest for a turn. So a client that asks for less than its part waits for one task, and not for
/// one of each.
///
/// Best-effort work that real-time work keeps off the device is owed the `reserve` of that time;
/// while it runs capped next to real-time work, nothing. When that has come to the reserve of 100
/// ms, tasks that no budget covers wait until it has been paid back. Those in their budget never
/// do: the code that grants budgets keeps their sum below what the reserve leaves. No more is owed
/// than the reserve of a second, so a task waits for as long as it takes to pay that back at most.
///
/// ```
/// use reef_core::scheduler::{Reef, RtShare};
/// use reef_core::{Account, Cells, Device, Dispatcher, Rate, Task};
/// use reef_cpu::Cpu;
/// use std::time::Duration;
///
/// let device = Cpu::open(0, "units=1")?;
/// let dispatcher = Dispatcher::start(&device, RtShare::new(Box::new(Reef::default()), 0.05))?;
/// let rate = Rate::new(Duration::from_millis(10), Duration::from_millis(2))?;
/// let mut client = dispatcher.real_time()?;
/// client.charge(&Account::new(Some(rate))); // 2 of each 10 ms are its own
/// client.run(&Task::new([Cells::new(&device, 4)?.append(7, 0)])?)?;
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug)]
pub struct RtShare {
    inner: Box<dyn Scheduler>,
    reserve: f64,
    turns: Turns,
    debt: Debt,
    /// Positions of the tasks that may start, in their order, and the inner scheduler's views of
    /// them.
    chosen: Vec<usize>,
    views: Vec<RtTaskView>,
}

impl RtShare {
    /// Wraps `inner`, with `reserve` of the device for best-effort work: from 0, which is none, to
    /// less than 1.
    ///
    /// # Panics
    ///
    /// If `reserve` is not in that range.
    pub fn new(inner: Box<dyn Scheduler>, reserve: f64) -> Self {
        assert!((0.0..1.0).contains(&reserve), "a reserve of {reserve}: 0 to less than 1");
        let (turns, debt) = (Turns::default(), Debt::default());
        Self { inner, reserve, turns, debt, chosen: Vec::new(), views: Vec::new() }
    }

    /// Chooses the tasks that may start: those in their budget if there are some, else the others
    /// unless best-effort work is paid back.
    fn choose(&mut self, view: &View<'_>, held: bool) {
        let tasks = view.rt_waiting;
        let covered = tasks.iter().any(|task| task.in_budget);
        self.chosen.clear();
        if view.rt_running == 0 && (covered || !held) {
            let may_start = |&at: &usize| tasks[at].in_budget == covered;
            self.chosen.extend((0..tasks.len()).filter(may_start));
        }
        let grain = self.turns.grain();
        self.chosen.sort_by_key(|&at| (self.turns.rank(&tasks[at], grain), at));
        self.views.clear();
        self.views.extend(self.chosen.iter().map(|&at| tasks[at]));
    }
}

impl Scheduler for RtShare {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn level(&self) -> PreemptLevel {
        self.inner.level()
    }

    fn rt_priority(&self) -> Priority {
        self.inner.rt_priority()
    }

    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan) {
        self.turns.book(view.rt_waiting);
        let held = self.debt.book(now, view, self.reserve);
        self.choose(view, held);
        let inner_view = View { rt_waiting: &self.views, ..*view };
        plan.open(&inner_view);
        self.inner.decide(now, &inner_view, plan);
        plan.start.truncate(1); // of the tasks in the inner view
        plan.start.retain_mut(|at| {
            self.chosen.get(*at).is_some_and(|&position| {
                *at = position;
                true
            })
        });
        if let Some(&at) = plan.start.first() {
            self.turns.start(&view.rt_waiting[at], now);
        }
        self.debt.kept_off = plan.preempt;
        if held && !view.rt_waiting.is_empty() {
            let until = self.debt.until(now, self.reserve);
            plan.wake_by(until);
        }
    }
}

/// Turns of the accounts.
#[derive(Debug, Default)]
struct Turns {
    accounts: BTreeMap<u64, Turn>,
    /// Start tag of the task that was started last.
    virtual_time: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    /// Finish tag of its last task: its start tag and the device time that it used.
    finish: Duration,
    /// [`RtTaskView::served`] up to which `finish` counts.
    served: Duration,
    /// Device time of its last task.
    length: Duration,
    /// Time at which it was last started.
    last: Duration,
}

impl Turns {
    /// Records the device time that accounts with tasks have used.
    fn book(&mut self, tasks: &[RtTaskView]) {
        for task in tasks {
            if !self.accounts.contains_key(&task.account) {
                self.forget();
            }
            let fresh = Turn { finish: self.virtual_time, served: task.served, ..Turn::default() };
            let turn = self.accounts.entry(task.account).or_insert(fresh);
            let had = task.served.saturating_sub(turn.served);
            if !had.is_zero() {
                (turn.finish, turn.served, turn.length) = (turn.finish + had, task.served, had);
            }
        }
    }

    /// Forgets accounts that would start level if they came now, once there are many.
    fn forget(&mut self) {
        if self.accounts.len() >= MAX_ACCOUNTS {
            let now = self.virtual_time;
            self.accounts.retain(|_, turn| turn.finish > now);
        }
    }

    /// Device time by which accounts may differ: the longest task.
    fn grain(&self) -> Duration {
        let longest = self.accounts.values().map(|turn| turn.length).max();
        longest.unwrap_or_default().max(Duration::from_nanos(1))
    }

    fn start_tag(&self, task: &RtTaskView) -> Duration {
        let turn = self.accounts.get(&task.account);
        turn.map_or(self.virtual_time, |turn| turn.finish.max(self.virtual_time))
    }

    /// Returns its rank; the smallest goes first. Made of the start tag in units of `grain`, then
    /// the time since the account's last turn.
    fn rank(&self, task: &RtTaskView, grain: Duration) -> (u128, Duration) {
        let ahead = self.start_tag(task) - self.virtual_time;
        let last = self.accounts.get(&task.account).map(|turn| turn.last).unwrap_or_default();
        (ahead.as_nanos() / grain.as_nanos(), last)
    }

    fn start(&mut self, task: &RtTaskView, now: Duration) {
        let tag = self.start_tag(task);
        if let Some(turn) = self.accounts.get_mut(&task.account) {
            (turn.finish, turn.last) = (tag, now);
        }
        self.virtual_time = tag;
    }
}

/// Device time that best-effort work is owed.
#[derive(Debug, Default)]
struct Debt {
    owed: Duration,
    /// It is being paid back.
    paying: bool,
    /// Time at which this was last booked.
    booked: Duration,
    /// Time at which best-effort work was last there, if it ever was.
    seen: Option<Duration>,
    /// The last plan preempted it.
    kept_off: bool,
}

impl Debt {
    /// Records the time since the last call; returns whether tasks without a budget have to wait.
    fn book(&mut self, now: Duration, view: &View<'_>, reserve: f64) -> bool {
        let time = now.saturating_sub(self.booked);
        let wanted = self.is_wanted(self.booked);
        self.booked = now;
        let is_kept_off = self.kept_off || view.preempted;
        // Capped, it has a part, whatever that is.
        if wanted && !view.capped {
            if is_kept_off {
                let owed = self.owed.saturating_add(time.min(MAX_KEPT_OFF).mul_f64(reserve));
                self.owed = owed.min(MAX_KEPT_OFF.mul_f64(reserve));
            } else {
                self.owed = self.owed.saturating_sub(time.mul_f64(1.0 - reserve));
            }
        }
        if view.queues.iter().any(|queue| queue.is_ready()) {
            self.seen = Some(now);
        } else if self.seen.is_none_or(|seen| now.saturating_sub(seen) > WINDOW) {
            self.owed = Duration::ZERO; // no client is left to be paid
        }
        let due = WINDOW.mul_f64(reserve * (1.0 - reserve));
        self.paying = !self.owed.is_zero() && (self.paying || self.owed >= due);
        self.paying && self.is_wanted(now)
    }

    fn is_wanted(&self, now: Duration) -> bool {
        self.seen.is_some_and(|seen| now.saturating_sub(seen) < GRACE)
    }

    /// Returns the time of the next decision: it is paid back, or no client wanted it.
    fn until(&self, now: Duration, reserve: f64) -> Duration {
        let paid = now.saturating_add(self.owed.div_f64(1.0 - reserve));
        match self.seen {
            Some(seen) if seen < now => paid.min(seen.saturating_add(GRACE)),
            _ => paid,
        }
    }
}

#[cfg(test)]
mod tests;
