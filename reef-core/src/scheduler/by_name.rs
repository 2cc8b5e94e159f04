//! Schedulers by name.

use crate::scheduler::baseline::{RtOnly, Sequential, StreamPriority, Streams, WaitBased};
use crate::scheduler::deadline::EarliestDeadline;
use crate::scheduler::fair::FairShare;
use crate::scheduler::policy::Scheduler;
use crate::scheduler::priority::FixedPriority;
use crate::scheduler::reef::Reef;
use crate::scheduler::target::LatencyTarget;
use crate::suggest::did_you_mean;

/// A scheduler by the name that [`Scheduler::name`] gives, with its defaults; with a
/// [target](LatencyTarget) behind an `@`, such as `reef@1.10`.
///
/// ```
/// use reef_core::scheduler::by_name;
///
/// assert_eq!(by_name("reef").map(|scheduler| scheduler.name()), Some("reef"));
/// assert!(by_name("reef@1.10").is_some());
/// ```
pub fn by_name(name: &str) -> Option<Box<dyn Scheduler>> {
    if let Some((name, ratio)) = name.split_once('@') {
        let target = LatencyTarget::new(by_name(name)?, ratio.parse().ok()?).ok()?;
        return Some(Box::new(target));
    }
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

/// Message for a name that [`by_name`] does not know, or that has a wrong target.
pub fn no_scheduler(name: &str) -> String {
    if let Some((of, ratio)) = name.split_once('@').filter(|(of, _)| NAMES.contains(of)) {
        return format!("{of}@: a latency target must be a ratio from 1.01 to 10, got {ratio:?}");
    }
    let (have, meant) = (NAMES.join(", "), did_you_mean(name, NAMES));
    format!("no scheduler {name:?} (have: {have}){meant}")
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
mod tests {
    use super::*;
    use crate::scheduler::policy::tests::{decide, ms, queue, view};
    use crate::scheduler::policy::{LaunchLimit, View};

    #[test]
    fn every_name_is_found_and_unique() {
        for name in NAMES {
            assert_eq!(by_name(name).expect(name).name(), name);
        }
        assert!(by_name("reaf").is_none());
        let said = no_scheduler("raef");
        assert!(said.starts_with("no scheduler \"raef\" (have: rt-only, "), "{said}");
        assert!(said.ends_with("fair-share): did you mean reef?"), "{said}");
        assert!(no_scheduler("reaf@1.10").starts_with("no scheduler \"reaf@1.10\" (have: "));
    }

    #[test]
    fn target_out_of_range_is_refused_in_words() {
        for ratio in ["0.5", "fast", ""] {
            let want =
                format!("reef@: a latency target must be a ratio from 1.01 to 10, got {ratio:?}");
            assert_eq!(no_scheduler(&format!("reef@{ratio}")), want);
        }
    }

    #[test]
    fn name_may_have_a_target() {
        let target = by_name("reef@1.10").expect("a target");
        assert!(format!("{target:?}").contains("ratio: 1.1"), "{target:?}");
        for bad in ["reef@", "reef@1.0", "reef@fast", "reaf@1.10", "@1.10", "reef@1.1@1.1"] {
            assert!(by_name(bad).is_none(), "{bad}");
        }
    }

    /// For every scheduler: with one ready queue and no real-time work, that queue runs.
    #[test]
    fn work_is_conserved() {
        for name in NAMES.into_iter().filter(|&name| name != "rt-only") {
            let mut scheduler = by_name(name).expect(name);
            let queues = [queue(0, 5, 5), queue(1, 0, 3)];
            let plan = decide(&mut *scheduler, ms(1), &view(0, 0, &queues));
            assert!(!plan.preempt && plan.limits[1] != LaunchLimit::Closed, "{name}: {plan:?}");
        }
    }

    /// For every scheduler: a real-time task on an otherwise idle device starts.
    #[test]
    fn real_time_work_starts_on_an_idle_device() {
        for name in NAMES {
            let mut scheduler = by_name(name).expect(name);
            let queues = [queue(0, 5, 5)];
            let idle = View { quiesced: true, preempted: true, ..view(1, 0, &queues) };
            let plan = decide(&mut *scheduler, ms(1), &idle);
            assert_eq!(plan.start, [0], "{name}: {plan:?}");
        }
    }
}
