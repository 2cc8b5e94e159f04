//! REEF: real-time work starts at once, and best-effort work fills what it leaves.

use crate::backend::info::PreemptLevel;
use crate::scheduler::policy::{Plan, Scheduler, View};
use std::time::Duration;

/// Preempts best-effort work while real-time work is there, and pads real-time kernels with it.
///
/// A burst of real-time tasks preempts once. Best-effort work resumes when there has been no
/// real-time work for `hysteresis`: with short gaps between requests it costs less to stay
/// preempted than to resume and be stopped again.
///
/// ```
/// use reef_core::PreemptLevel;
/// use reef_core::scheduler::{Reef, Scheduler};
/// use std::time::Duration;
///
/// let shallow = Reef::default().level(PreemptLevel::DeviceQueue);
/// let reef = shallow.hysteresis(Duration::from_micros(200));
/// assert_eq!(Scheduler::level(&reef), PreemptLevel::DeviceQueue);
/// assert_eq!((reef.name(), Reef::without_padding().name()), ("reef", "reset"));
/// ```
#[derive(Debug)]
pub struct Reef {
    level: PreemptLevel,
    pad: bool,
    hysteresis: Duration,
    /// Time until which real-time work was seen: of the first pass without it.
    last_rt: Option<Duration>,
    /// The last pass saw real-time work.
    rt_seen: bool,
}

impl Default for Reef {
    fn default() -> Self {
        Self {
            level: PreemptLevel::All,
            pad: true,
            hysteresis: Duration::ZERO,
            last_rt: None,
            rt_seen: false,
        }
    }
}

impl Reef {
    /// REEF's RESET baseline: real-time kernels run alone.
    pub fn without_padding() -> Self {
        Self { pad: false, ..Self::default() }
    }

    /// Preempts only as deep as `level`.
    #[must_use]
    pub fn level(mut self, level: PreemptLevel) -> Self {
        self.level = level;
        self
    }

    /// Resumes best-effort work this long after the last real-time work.
    #[must_use]
    pub fn hysteresis(mut self, hysteresis: Duration) -> Self {
        self.hysteresis = hysteresis;
        self
    }
}

impl Scheduler for Reef {
    fn name(&self) -> &'static str {
        if self.pad { "reef" } else { "reset" }
    }

    fn level(&self) -> PreemptLevel {
        self.level
    }

    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan) {
        let has_rt = view.rt() > 0;
        // There may be no pass while a task runs.
        if has_rt || self.rt_seen {
            self.last_rt = Some(now);
        }
        self.rt_seen = has_rt;
        let resume = self.last_rt.map(|last| last.saturating_add(self.hysteresis));
        plan.preempt = has_rt || (view.preempted && resume.is_some_and(|at| now < at));
        plan.pad = self.pad;
        if plan.preempt && !has_rt {
            plan.wake = resume;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::policy::tests::{decide, ms, queue, view};

    #[test]
    fn reef_preempts_while_there_is_real_time_work() {
        let queues = [queue(0, 0, 9)];
        let mut reef = Reef::default();
        for (rt_waiting, rt_running, preempt) in
            [(0, 0, false), (1, 0, true), (0, 1, true), (3, 1, true)]
        {
            let mut v = view(rt_waiting, rt_running, &queues);
            v.preempted = rt_running > 0;
            let plan = decide(&mut reef, ms(0), &v);
            let all: Vec<usize> = (0..rt_waiting).collect();
            assert_eq!((plan.preempt, plan.start, plan.pad), (preempt, all, true));
        }
    }

    #[test]
    fn reef_resumes_after_the_hysteresis() {
        let queues = [queue(0, 0, 9)];
        let mut reef = Reef::default().hysteresis(ms(2));
        decide(&mut reef, ms(10), &view(1, 0, &queues));
        let idle = View { preempted: true, quiesced: true, ..view(0, 0, &queues) };
        for (now, preempt, wake) in [(10, true, Some(12)), (11, true, Some(12)), (12, false, None)]
        {
            let plan = decide(&mut reef, ms(now), &idle);
            assert_eq!((plan.preempt, plan.wake), (preempt, wake.map(ms)), "at {now} ms");
        }
    }

    #[test]
    fn hysteresis_begins_when_a_long_task_ends() {
        let queues = [queue(0, 0, 9)];
        let mut reef = Reef::default().hysteresis(ms(2));
        decide(&mut reef, ms(10), &view(1, 0, &queues)); // no pass before the task's end
        let idle = View { preempted: true, quiesced: true, ..view(0, 0, &queues) };
        for (now, preempt, wake) in [(50, true, Some(52)), (51, true, Some(52)), (52, false, None)]
        {
            let plan = decide(&mut reef, ms(now), &idle);
            assert_eq!((plan.preempt, plan.wake), (preempt, wake.map(ms)), "at {now} ms");
        }
    }

    #[test]
    fn device_without_real_time_work_is_not_held() {
        let queues = [queue(0, 0, 9)];
        assert!(
            !decide(&mut Reef::default().hysteresis(ms(2)), ms(0), &view(0, 0, &queues)).preempt
        );
    }
}
