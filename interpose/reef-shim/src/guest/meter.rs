//! Meter of a guest whose part of the device's time is limited: launching threads wait for the
//! part, and the watchdog counts the time.
//!
//! A guest works if a stream has work that isn't known to have ended. A thread that waited for its
//! work knows its end. The watchdog polls every millisecond, and a waiting thread more often.

use crate::driver::pause_gate::untouched;
use crate::limit::device::Limited;
use crate::settings::settings;
use reef_guest::limit::{Account, Policy, Usage, Wait, WaitTimeout, WorkState};
use reef_guest::pace::{MARK_EVERY, Spacing};
use reef_guest::page::{Class, Time};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Interval between polls of the watchdog.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum work in flight, in time: launches can't be undone.
const MAX_AHEAD: Duration = Duration::from_millis(20);
/// Time between marks.
const MARK_INTERVAL: Duration = Duration::from_millis(1);
/// Intervals between polls of a waiting thread: while it has work in flight, and after that.
const BUSY_INTERVAL: Duration = Duration::from_micros(100);
const IDLE_INTERVAL: Duration = Duration::from_millis(2);
/// Time from the begin of a wait in which a thread with work in flight polls without sleeping: the
/// end of short kernels, seen a sleep later, would be charged as work.
const SPIN: Duration = Duration::from_micros(50);

/// Meter of a device's time for this process.
#[derive(Debug)]
pub(crate) struct Meter {
    account: Account,
    policy: Policy,
    /// True if it works in turns with other processes. A real-time guest holds them instead.
    takes_turns: bool,
    usage: Usage,
    timeout: WaitTimeout,
    /// Launches that had to wait.
    waits: AtomicU64,
}

impl Meter {
    /// Creates the meter of a device whose time is limited.
    pub(super) fn of(limited: &Limited, class: Class) -> Option<Self> {
        let is_soft = settings().limits.as_ref().ok()?.as_ref()?.is_work_conserving;
        let policy = if is_soft { Policy::WorkConserving } else { Policy::Hard };
        let account = limited.account().clone();
        let takes_turns = class == Class::BestEffort;
        let (usage, timeout, waits) = (Usage::new(), WaitTimeout::new(), AtomicU64::new(0));
        let has_limit = account.has_time_limit();
        has_limit.then_some(Self { account, policy, takes_turns, usage, timeout, waits })
    }

    /// Waits until work may begin, outside the driver, so that no other thread has to wait.
    /// `is_ahead` returns whether a number of launches is in flight; `mark` inserts a mark after
    /// them where one is due, and `look` returns their progress and their state.
    #[inline]
    pub(super) fn wait(
        &self,
        spacing: &Spacing,
        is_ahead: impl Fn(u32) -> bool,
        mark: impl Fn(),
        poll: impl Fn() -> (u32, WorkState),
    ) {
        let delay = self.delay(spacing, &is_ahead);
        if !delay.is_zero() {
            self.wait_for(delay, || self.delay(spacing, &is_ahead), mark, poll);
        }
        self.timeout.note_paid();
    }

    /// Waits for `delay`, and for as long as `again` says.
    #[cold]
    fn wait_for(
        &self,
        mut delay: Duration,
        again: impl Fn() -> Duration,
        mark: impl Fn(),
        poll: impl Fn() -> (u32, WorkState),
    ) {
        self.waits.fetch_add(1, Relaxed);
        let now = Time::now().0;
        self.charge(now, self.usage.waits(now));
        let (begin, mut wait) = (Instant::now(), Wait::default());
        while !delay.is_zero() {
            mark();
            let (progress, seen) = poll();
            self.poll(seen);
            let obstacle = self.account.obstacle(self.policy, seen, progress);
            if self.timeout.is_over(&mut wait, Time::now().0, obstacle) {
                break;
            }
            let is_working = seen == WorkState::Working;
            if is_working && begin.elapsed() < SPIN {
                std::hint::spin_loop();
            } else {
                let most = if is_working { BUSY_INTERVAL } else { IDLE_INTERVAL };
                untouched(|| std::thread::sleep(delay.clamp(Duration::from_micros(50), most)));
            }
            delay = again();
        }
        self.account.note_waited(begin.elapsed());
    }

    /// Returns the minimum time that a launch has to wait. `is_ahead` returns whether a number of
    /// launches is in flight on its stream.
    fn delay(&self, spacing: &Spacing, is_ahead: impl Fn(u32) -> bool) -> Duration {
        let most = spacing.launches_in(MAX_AHEAD).clamp(2, 2 * MARK_EVERY);
        let now = Time::now().0;
        let wait = if self.takes_turns {
            self.account.wait_for_turn(now, self.policy)
        } else {
            self.account.wait_for_part(now, self.policy)
        };
        if is_ahead(most) { wait.max(BUSY_INTERVAL) } else { wait }
    }

    /// Returns the number of launches for each mark.
    pub(super) fn mark_every(spacing: &Spacing) -> u32 {
        spacing.launches_in(MARK_INTERVAL).min(MARK_EVERY)
    }

    #[inline]
    pub(crate) fn note_launch(&self) {
        if self.usage.launched(|| Time::now().0) {
            self.account.note_work();
        }
    }

    /// Counts the device time since the last poll.
    pub(crate) fn poll(&self, seen: WorkState) {
        let now = Time::now().0;
        self.charge(now, self.usage.poll(now, seen, self.account.other_workers(now)));
        self.account.note_poll(now, seen, self.policy);
    }

    fn charge(&self, now: u64, nanos: u64) {
        if nanos > 0 {
            self.account.charge(now, nanos, self.policy);
        }
    }

    /// Returns a text about the launches that had to wait.
    pub(crate) fn report(&self) -> String {
        let waits = format!("waits for its part of the time {}", self.waits.load(Relaxed));
        match self.timeout.passed() {
            0 => waits,
            passed => format!("{waits}, {passed} of them abandoned because nothing moved"),
        }
    }
}
