//! Ladder of a target of latency: ways to run best-effort work next to tasks, in the order of what
//! it keeps.

use crate::backend::info::Caps;
use crate::scheduler::policy::{Plan, View, Width};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Time for which a rung that was too large is not tried again, at first and at most. It doubles,
/// and begins anew after the rung has lasted for this many times as long.
const MIN_REST: Duration = Duration::from_millis(250);
const MAX_REST: Duration = Duration::from_secs(32);
const LASTING: u32 = 4;
/// First tasks next to a rung that was never tried: graphs are captured for it meanwhile, which
/// says nothing about later tasks.
const FIRST_COLOCATED: u32 = 16;
/// Position of the rung while no task is known.
const UNKNOWN: usize = 1;

/// All rungs, in the order of what best-effort work keeps. What a rung costs depends on the tasks:
/// on four fifths of the units some are hardly slower, and others by a quarter. Next to ResNet-50,
/// ResNet-152 keeps 52 % with the device's own caps, 55 % without any, and 60 % if ResNet-50 runs
/// on 79 % of the units (H200, docs/lab/nvidia.md).
const ALL: [Rung; 11] = [
    Rung::Alone,
    Rung::Bounded(Width::Units { percent: 12 }),
    Rung::Bounded(Width::Parts { real_time: 85, best_effort: 15 }),
    Rung::Bounded(Width::Parts { real_time: 79, best_effort: 21 }),
    Rung::Bounded(Width::Units { percent: 25 }),
    Rung::Bounded(Width::Parts { real_time: 79, best_effort: 40 }),
    Rung::Bounded(Width::Parts { real_time: 79, best_effort: 52 }),
    Rung::Bounded(Width::Device),
    Rung::Uncapped,
    Rung::Bounded(Width::Parts { real_time: 79, best_effort: 100 }),
    Rung::Bounded(Width::Parts { real_time: 73, best_effort: 100 }),
];

/// Way of best-effort work next to tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rung {
    /// Not at all.
    Alone,
    /// With this bound of its blocks.
    Bounded(Width),
    /// As it is, neither preempted nor capped: the streams of real-time work go first.
    Uncapped,
}

impl Rung {
    /// Has best-effort work run so.
    pub(super) fn apply(self, plan: &mut Plan) {
        (plan.preempt, plan.pad, plan.width) = match self {
            Self::Alone => (true, false, Width::Device),
            Self::Bounded(width) => (plan.preempt, true, width),
            Self::Uncapped => (false, false, Width::Device),
        };
    }

    /// Returns whether a device has it. One without caps knows none and all.
    fn is_of(self, device: DeviceRungs) -> bool {
        match self {
            Self::Alone | Self::Bounded(Width::Device) => true,
            Self::Bounded(Width::Units { percent }) => percent == 12 || !device.has_parts,
            Self::Bounded(Width::Parts { .. }) => device.has_parts,
            Self::Uncapped => device.has_uncapped,
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone => out.write_str("alone"),
            Self::Bounded(Width::Device) => out.write_str("capped"),
            Self::Bounded(Width::Units { percent }) => write!(out, "{percent} %"),
            Self::Bounded(Width::Parts { real_time, best_effort }) => {
                write!(out, "{real_time}+{best_effort} %")
            }
            Self::Uncapped => out.write_str("uncapped"),
        }
    }
}

/// Rungs that a device has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DeviceRungs {
    /// Graphs run on parts of it.
    has_parts: bool,
    /// Its caps follow the blocks, and no option bounds them: short ones run as they are anyway.
    has_uncapped: bool,
}

/// Numbers of tasks by what ran next to them, of one [`LatencyTarget`](super::LatencyTarget) and
/// read while a dispatcher has that.
///
/// ```
/// use reef_core::scheduler::{LatencyTarget, Reef};
///
/// let target = LatencyTarget::new(Box::new(Reef::default()), 1.10)?;
/// assert_eq!(target.counts().read(), [], "no task has ended");
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct WidthCounts(Arc<[AtomicU64; ALL.len()]>);

impl WidthCounts {
    /// Counts a task.
    pub(super) fn add(&self, rung: Rung) {
        let at = ALL.iter().position(|of| *of == rung);
        if let Some(count) = at.and_then(|at| self.0.get(at)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Returns what tasks that last ran next to, each with their number, in the order of what
    /// best-effort work keeps. `alone`: nothing, because tasks are measured or no width fits.
    /// `12 %`: on a part of the units. `79+40 %`: on parts of the units, that of real-time work
    /// first. `capped`: as the device does by itself. `uncapped`: on streams of a lower priority
    /// alone. Those without tasks are left out.
    pub fn read(&self) -> Vec<(String, u64)> {
        let counts = ALL.iter().zip(&*self.0);
        let read = counts.map(|(rung, count)| (rung.to_string(), count.load(Relaxed)));
        read.filter(|(_, count)| *count > 0).collect()
    }
}

/// Rungs of a device, and which of them were too large.
#[derive(Debug)]
pub(super) struct Ladder {
    device: DeviceRungs,
    rungs: Vec<Rung>,
    at: usize,
    /// Time since which this rung lasts.
    since: Duration,
    /// Of each rung the time until which it rests, and how long it will the next time.
    rests: Vec<(Duration, Duration)>,
    /// Of each rung the first tasks that are still to come.
    first: Vec<u32>,
}

impl Default for Ladder {
    fn default() -> Self {
        Self::new(DeviceRungs::default())
    }
}

impl Ladder {
    /// The rungs of a device, at that of the device itself.
    fn new(device: DeviceRungs) -> Self {
        let rungs: Vec<_> = ALL.into_iter().filter(|rung| rung.is_of(device)).collect();
        let is_own = |rung: &Rung| *rung == Rung::Bounded(Width::Device);
        let at = rungs.iter().position(is_own).unwrap_or(0);
        let rests = vec![(Duration::ZERO, MIN_REST); rungs.len()];
        let first = vec![FIRST_COLOCATED; rungs.len()];
        Self { device, rungs, at, since: Duration::ZERO, rests, first }
    }

    /// Begins anew if the device of this view has other rungs.
    pub(super) fn fit(&mut self, view: &View<'_>) {
        let has_uncapped = view.caps.is_some_and(Caps::is_adaptive);
        let device = DeviceRungs { has_parts: view.has_parts, has_uncapped };
        if device != self.device {
            *self = Self::new(device);
        }
    }

    /// Counts a task next to this rung, and returns whether it is one of the first.
    pub(super) fn is_new(&mut self) -> bool {
        let left = &mut self.first[self.at];
        let is_new = *left > 0;
        *left = left.saturating_sub(1);
        is_new
    }

    pub(super) fn rung(&self) -> Rung {
        self.rungs[self.at]
    }

    /// Goes to the least rung with best-effort work: no task is known.
    pub(super) fn restrict(&mut self, now: Duration) {
        (self.at, self.since) = (UNKNOWN, now);
    }

    /// Goes down, as this rung is too large.
    pub(super) fn fall(&mut self, now: Duration) {
        let (until, time) = &mut self.rests[self.at];
        if now.saturating_sub(self.since) > LASTING * *time {
            *time = MIN_REST;
        }
        (*until, *time) = (now.saturating_add(*time), (2 * *time).min(MAX_REST));
        let below = (0..self.at).rev().find(|&at| self.rests[at].0 <= now);
        (self.at, self.since) = (below.unwrap_or(0), now);
    }

    /// Goes up to the next rung that does not rest. Returns `false` if there is none.
    pub(super) fn rise(&mut self, now: Duration) -> bool {
        let above = (self.at + 1..self.rungs.len()).find(|&at| self.rests[at].0 <= now);
        above.is_some_and(|at| {
            (self.at, self.since) = (at, now);
            true
        })
    }

    /// Ends all rests: what was measured no longer holds.
    pub(super) fn wake(&mut self) {
        self.rests.fill((Duration::ZERO, MIN_REST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rung_that_lasted_rests_shortly() {
        let mut ladder = Ladder::default();
        let at = ladder.at;
        let mut now = Duration::from_secs(1);
        for _ in 0..10 {
            ladder.fall(now);
            now = ladder.rests[at].0;
            while ladder.at < at {
                assert!(ladder.rise(now));
            }
        }
        assert_eq!(ladder.rests[at].1, MAX_REST);
        now += Duration::from_secs(600);
        ladder.fall(now);
        assert_eq!(ladder.rests[at].0, now + MIN_REST);
    }

    /// The time before, at another rung, is none of this one's.
    #[test]
    fn rung_of_unknown_tasks_lasts_since_it_began() {
        let (mut ladder, now) = (Ladder::default(), Duration::from_secs(600));
        ladder.rests[UNKNOWN].1 = MAX_REST;
        ladder.restrict(now);
        ladder.fall(now);
        assert_eq!(ladder.rests[UNKNOWN].0, now + MAX_REST);
    }

    /// Names of the rungs of a device with these caps.
    fn names(has_parts: bool, caps: Option<Caps>) -> Vec<String> {
        let mut ladder = Ladder::default();
        ladder.fit(&View { has_parts, caps, ..View::new(&[], 0, &[]) });
        assert_eq!(ladder.rung(), Rung::Bounded(Width::Device));
        ladder.rungs.iter().map(Rung::to_string).collect()
    }

    #[test]
    fn rungs_are_those_that_the_device_has() {
        let adaptive = Some(Caps { short: 2000, long: 66, percent: 100 });
        assert_eq!(names(false, None), ["alone", "12 %", "25 %", "capped"]);
        let fixed = names(false, Some(Caps::all(66)));
        assert_eq!(fixed, ["alone", "12 %", "25 %", "capped"], "an option bounds the blocks");
        assert_eq!(names(false, adaptive), ["alone", "12 %", "25 %", "capped", "uncapped"]);
        let parts = ["85+15 %", "79+21 %", "79+40 %", "79+52 %"];
        let all = [&["alone", "12 %"], &parts[..], &["capped", "uncapped", "79+100 %", "73+100 %"]];
        assert_eq!(names(true, adaptive), all.concat());
    }

    #[test]
    fn tasks_are_counted_by_rung() {
        let counts = WidthCounts::default();
        let reader = counts.clone();
        for rung in [Rung::Uncapped, Rung::Alone, Rung::Uncapped] {
            counts.add(rung);
        }
        assert_eq!(reader.read(), [(String::from("alone"), 1), (String::from("uncapped"), 2)]);
    }
}
