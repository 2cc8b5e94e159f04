//! Timeout of launches that wait for their part of a device's time.
//!
//! The clock pays a debt, so a launch waits for that however long it takes. Two other waits might
//! never end. A launch passes after [`TIMEOUT`] of one of them:
//!
//! 1. Its job has no debt, and no turn comes: the schedule is broken, and the job keeps its part.
//! 2. The work in flight makes no progress: it may itself wait for this launch. It may also be a
//!    long kernel. So one launch of the process passes. The next one waits twice as long, until the
//!    debt is paid.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Time after which a launch passes whose wait might never end. Nanoseconds.
const TIMEOUT: u64 = 10_000_000_000;
/// Maximum doublings of the timeout: half a year.
const MAX_DOUBLINGS: u32 = 20;

/// Reason for which a launch waits, at one poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The job has a debt, and none of this process's work is on the device.
    Debt,
    /// The job has a debt, and this process's work is at this point of its progress.
    Work(u32),
    /// The job has no debt: the turn is another process's, or too much work is in flight.
    Schedule,
}

/// Timeout of one process's launches on a device.
#[derive(Debug, Default)]
pub struct WaitTimeout {
    /// Launches that passed in debt, since the debt was last paid.
    doublings: AtomicU32,
    /// Launches that passed, for any reason.
    passed: AtomicU32,
}

/// Wait of one launch: its obstacle, the time since which it has been the same, and the doublings
/// at that time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    obstacle: Option<Obstacle>,
    since: u64,
    doublings: u32,
}

impl WaitTimeout {
    /// Creates the timeout of a process that hasn't waited yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a launch that did not have to wait any longer: there is no debt.
    #[inline]
    pub fn note_paid(&self) {
        if self.doublings.load(Relaxed) > 0 {
            self.doublings.store(0, Relaxed);
        }
    }

    /// Returns whether a launch passes at `now`, in nanoseconds, although its time has not come.
    pub fn is_over(&self, wait: &mut Wait, now: u64, obstacle: Obstacle) -> bool {
        let doublings = self.doublings.load(Relaxed);
        if wait.obstacle != Some(obstacle) || wait.doublings != doublings {
            *wait = Wait { obstacle: Some(obstacle), since: now, doublings };
        }
        let doubled = TIMEOUT << doublings.min(MAX_DOUBLINGS);
        let waited = now.saturating_sub(wait.since);
        let is_over = match obstacle {
            Obstacle::Debt => false,
            Obstacle::Schedule => waited >= TIMEOUT,
            Obstacle::Work(_) => waited >= doubled && self.double(doublings),
        };
        self.passed.fetch_add(u32::from(is_over), Relaxed);
        is_over
    }

    /// Doubles the timeout. Of several threads that do so at once, one succeeds.
    fn double(&self, from: u32) -> bool {
        let doubled = from.saturating_add(1);
        self.doublings.compare_exchange(from, doubled, Relaxed, Relaxed).is_ok()
    }

    /// Returns the launches that passed although their time had not come.
    pub fn passed(&self) -> u32 {
        self.passed.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Returns the seconds after which a launch passes that polls each second, if it does within a
    /// day.
    fn passes(timeout: &WaitTimeout, obstacle: impl Fn(u64) -> Obstacle) -> Option<u64> {
        let mut wait = Wait::default();
        (1..86_400).find(|at| timeout.is_over(&mut wait, at * SECOND, obstacle(*at)))
    }

    #[test]
    fn debt_alone_is_waited_for_without_end() {
        let timeout = WaitTimeout::new();
        assert_eq!(passes(&timeout, |_| Obstacle::Debt), None);
        assert_eq!(passes(&timeout, |at| Obstacle::Work(at as u32 / 9)), None, "progress");
        assert_eq!(timeout.passed(), 0);
    }

    #[test]
    fn launch_without_debt_passes_a_broken_schedule() {
        let timeout = WaitTimeout::new();
        assert_eq!(passes(&timeout, |_| Obstacle::Schedule), Some(11));
        assert_eq!(passes(&timeout, |_| Obstacle::Schedule), Some(11));
        let paid_at_60 = |at| if at < 60 { Obstacle::Debt } else { Obstacle::Schedule };
        assert_eq!(passes(&timeout, paid_at_60), Some(70), "only the time after the debt");
    }

    #[test]
    fn stuck_work_lets_one_launch_pass_at_doubled_times() {
        let timeout = WaitTimeout::new();
        for doubled in [10, 20, 40, 80] {
            assert_eq!(passes(&timeout, |_| Obstacle::Work(7)), Some(doubled + 1));
        }
        timeout.note_paid();
        let mut waits = [Wait::default(); 8];
        let all = |now: u64, waits: &mut [Wait]| {
            let over = |wait| timeout.is_over(wait, now * SECOND, Obstacle::Work(7));
            waits.iter_mut().map(over).filter(|is_over| *is_over).count()
        };
        let mut passed =
            |range: std::ops::Range<u64>| range.map(|now| all(now, &mut waits)).sum::<usize>();
        assert_eq!((passed(0..10), passed(10..30), passed(30..31)), (0, 1, 1));
        assert_eq!(timeout.passed(), 6);
    }
}
