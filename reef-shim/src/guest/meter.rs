//! Device time of a guest whose part of it is limited: who launches waits for it, and the keeper
//! counts it.
//!
//! A guest works if a stream has work that isn't known to have ended. Threads that waited for their
//! work know; the keeper looks every millisecond, and who has to wait looks more often.

use crate::limit::device::Limited;
use crate::settings::settings;
use reef_guest::limit::{Account, Policy, Usage, WorkState};
use reef_guest::pace::{MARK_EVERY, Spacing};
use reef_guest::page::{Class, Time};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often the keeper looks.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// How much work may be in flight: what is launched can't be taken back.
const MAX_AHEAD: Duration = Duration::from_millis(20);
/// How far marks are apart, in time.
const MARK_INTERVAL: Duration = Duration::from_millis(1);
/// How often who waits looks: at its work while there is some, then at the bucket. And the longest
/// that a launch waits, whatever the books say.
const BUSY_INTERVAL: Duration = Duration::from_micros(100);
const IDLE_INTERVAL: Duration = Duration::from_millis(2);
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A device's time, as this process may use it.
#[derive(Debug)]
pub(crate) struct Meter {
    account: Account,
    policy: Policy,
    /// It works in turns with others. A real-time guest holds them instead.
    takes_turns: bool,
    usage: Usage,
    /// Launches that had to wait.
    waits: AtomicU64,
}

impl Meter {
    /// The meter of a device whose time is limited.
    pub(super) fn of(limited: &Limited, class: Class) -> Option<Self> {
        let is_soft = settings().limits.as_ref().ok()?.as_ref()?.is_work_conserving;
        let policy = if is_soft { Policy::WorkConserving } else { Policy::Hard };
        let account = limited.account().clone();
        let takes_turns = class == Class::BestEffort;
        let (usage, waits) = (Usage::new(), AtomicU64::new(0));
        account.has_time_limit().then_some(Self { account, policy, takes_turns, usage, waits })
    }

    /// Waits until work may begin: outside of the driver, so that nobody else has to. `is_ahead`
    /// says whether so many launches are in flight; `mark` puts a mark behind them, and `look`
    /// whether they are on their way.
    pub(super) fn wait(
        &self,
        spacing: &Spacing,
        is_ahead: impl Fn(u32) -> bool,
        mark: impl FnOnce(),
        look: impl Fn() -> WorkState,
    ) {
        let mut delay = self.delay(spacing, &is_ahead);
        if delay.is_zero() {
            return;
        }
        self.waits.fetch_add(1, Relaxed);
        mark();
        let now = Time::now().0;
        self.charge(now, self.usage.waits(now));
        let begin = Instant::now();
        while !delay.is_zero() && begin.elapsed() < MAX_WAIT {
            let seen = look();
            self.look(seen);
            let most = if seen == WorkState::Working { BUSY_INTERVAL } else { IDLE_INTERVAL };
            std::thread::sleep(delay.clamp(Duration::from_micros(50), most));
            delay = self.delay(spacing, &is_ahead);
        }
        self.account.note_waited(begin.elapsed());
    }

    /// For how long a launch on a stream has to wait, at least, where `is_ahead` says whether so
    /// many are in flight.
    fn delay(&self, spacing: &Spacing, is_ahead: impl Fn(u32) -> bool) -> Duration {
        let most = spacing.launches_in(MAX_AHEAD).clamp(2, 2 * MARK_EVERY);
        let now = Time::now().0;
        let wait = match self.takes_turns {
            true => self.account.wait_for_turn(now, self.policy),
            false => self.account.wait_for_part(now, self.policy),
        };
        if is_ahead(most) { wait.max(BUSY_INTERVAL) } else { wait }
    }

    /// Returns how many launches a mark is good for.
    pub(super) fn mark_every(spacing: &Spacing) -> u32 {
        spacing.launches_in(MARK_INTERVAL).min(MARK_EVERY)
    }

    /// Notes that there is work from now on.
    #[inline]
    pub(crate) fn note_launch(&self) {
        if self.usage.launched(|| Time::now().0) {
            self.account.note_work();
        }
    }

    /// Counts what the device did since the last look.
    pub(crate) fn look(&self, seen: WorkState) {
        let now = Time::now().0;
        self.charge(now, self.usage.look(now, seen, self.account.other_workers(now)));
        self.account.note_look(now, seen, self.policy);
    }

    fn charge(&self, now: u64, nanos: u64) {
        if nanos > 0 {
            self.account.charge(now, nanos, self.policy);
        }
    }

    /// Launches that had to wait.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Relaxed)
    }
}
