//! Relay: the thread that closes the gates of a real-time guest's peers while that guest says that
//! it is busy.
//!
//! The guest's word counts as long as it lives, has its class, and shows that it is at work.
//! Nothing else in its page affects its peers, also after it has ended. In the meantime the relay
//! lets peers pass for a part of the time, as they are allowed.

use super::gates::Gates;
use super::pass::Pass;
use super::rt_windows::RtWindows;
use super::rules::Rules;
use crate::colocation::memory::{Memory, ProgramKey};
use crate::hold::activity::Activity;
use crate::page::mapping::Mapping;
use crate::page::spans::Time;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Interval between polls of a guest that doesn't wake its relay.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between polls of a busy guest whose peers were released because it wasn't at work: its
/// next launch doesn't wake the relay.
const STALL_INTERVAL: Duration = Duration::from_millis(5);

/// Time before the next step in which the relay polls instead of sleeping, in nanoseconds: a
/// wake-up may be late by as much.
const MAX_LATE: u64 = 200_000;

/// Polls between polls of the time.
const POLLS: usize = 512;

/// Number of relays that poll.
static WATCHERS: AtomicUsize = AtomicUsize::new(0);

/// Permit to poll, which ends with it.
struct Watcher(());

impl Watcher {
    fn take(max: usize) -> Option<Self> {
        let more = |watchers| (watchers < max).then_some(watchers + 1);
        WATCHERS.fetch_update(Relaxed, Relaxed, more).is_ok().then(|| Self(()))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        WATCHERS.fetch_sub(1, Relaxed);
    }
}

/// Relay of one guest, until it is dropped.
#[derive(Debug)]
pub(super) struct Relay {
    page: Arc<Mapping>,
    gates: Arc<Gates>,
    stalls: Arc<AtomicU64>,
}

impl Relay {
    /// Starts the thread for the guest with this page, whose bit is `holder`. A guest that is busy
    /// without progress holds others at most for the rules' timeout. `memory` keeps what is found
    /// for the guest's target.
    ///
    /// # Errors
    ///
    /// The system can't start a thread.
    pub(super) fn start(
        page: Arc<Mapping>,
        pass: Arc<Pass>,
        holder: u32,
        rules: Rules,
        memory: Option<(Arc<Memory>, ProgramKey)>,
    ) -> io::Result<Self> {
        let (gates, stalls) = (Arc::new(Gates::of(holder)), Arc::<AtomicU64>::default());
        let now = Instant::now();
        let evidence =
            WorkEvidence { last: page.activity.evidence(), since: now, is_stalled: false };
        let (to, of) = (gates.clone(), page.clone());
        let windows = RtWindows::new(page.clone(), pass, &rules, memory);
        let stalls_too = stalls.clone();
        let follower =
            Follower { gates: to, page: of, rules, evidence, windows, stalls: stalls_too };
        let thread = std::thread::Builder::new().name("reef-relay".into());
        thread.spawn(move || follower.run())?;
        Ok(Self { page, gates, stalls })
    }

    pub(super) fn gates(&self) -> &Gates {
        &self.gates
    }

    /// Returns how often its peers were released because it was busy without progress for the
    /// timeout.
    pub(super) fn stalls(&self) -> u64 {
        self.stalls.load(Relaxed)
    }
}

impl Drop for Relay {
    /// Releases the peers at once. The thread ends shortly afterwards.
    fn drop(&mut self) {
        self.gates.end();
        self.page.activity.wake();
    }
}

struct Follower {
    gates: Arc<Gates>,
    page: Arc<Mapping>,
    rules: Rules,
    evidence: WorkEvidence,
    windows: RtWindows,
    stalls: Arc<AtomicU64>,
}

/// Rest of a relay until its next step.
struct Rest {
    /// The peers were held until now.
    has_held: bool,
    /// Time of the next step, in nanoseconds.
    until: u64,
    /// Time until the next poll.
    interval: Duration,
}

/// Last evidence that a guest is at work.
struct WorkEvidence {
    last: (u64, u64),
    since: Instant,
    is_stalled: bool,
}

impl Follower {
    fn run(mut self) {
        raise();
        let page = self.page.clone();
        page.activity.follow(&mut self, |it| it.gates.is_over(), Self::apply, Self::rest);
    }

    /// Brings the gates to what `word` means.
    fn apply(&mut self, word: u32) -> Rest {
        let is_busy = Activity::means_busy(word);
        let (is_at_work, now) = (is_busy && self.is_at_work(), Time::now().0);
        let is_holding = self.windows.is_measuring(now, is_at_work) || is_at_work;
        let has_held = self.gates.is_held() && !is_holding;
        self.gates.hold(is_holding);
        let until = self.windows.step(&self.gates, now, is_holding);
        Rest { has_held, until, interval: self.interval(is_busy) }
    }

    /// Rests while the word is unchanged.
    fn rest(&mut self, word: u32, rest: Rest) {
        if !(rest.has_held && self.watch(word)) {
            self.wait(word, rest.until, rest.interval);
        }
    }

    /// Polls the word after a hold, so that the next one begins at once. Returns whether the word
    /// changed.
    fn watch(&self, word: u32) -> bool {
        let Some(_watcher) = Watcher::take(self.rules.max_watchers) else { return false };
        let begin = Instant::now();
        while begin.elapsed() < self.rules.watch && !self.gates.is_over() {
            for _ in 0..POLLS {
                if self.page.activity.word() != word {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        false
    }

    /// Waits until this time, or for as long as `most`, or until the word changes.
    fn wait(&self, word: u32, until: u64, most: Duration) {
        let left = until.saturating_sub(Time::now().0);
        if Duration::from_nanos(left) >= most {
            return self.page.activity.wait(word, most);
        }
        if left > MAX_LATE {
            return self.page.activity.wait(word, Duration::from_nanos(left - MAX_LATE));
        }
        let Some(_watcher) = Watcher::take(self.rules.max_watchers) else {
            return self.page.activity.wait(word, Duration::from_nanos(left));
        };
        while Time::now().0 < until && !self.gates.is_over() {
            if self.page.activity.word() != word {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Returns whether a busy guest has launched or made progress within the timeout.
    fn is_at_work(&mut self) -> bool {
        let (seen, now) = (self.page.activity.evidence(), Instant::now());
        if seen != self.evidence.last || !self.gates.is_held() && !self.evidence.is_stalled {
            self.evidence = WorkEvidence { last: seen, since: now, is_stalled: false };
        }
        let is_stalled = now - self.evidence.since >= self.rules.hold_timeout;
        if is_stalled && !self.evidence.is_stalled {
            self.stalls.fetch_add(1, Relaxed);
        }
        self.evidence.is_stalled = is_stalled;
        !is_stalled
    }

    /// Returns the time until the next poll, if the guest doesn't wake the relay before.
    fn interval(&self, is_busy: bool) -> Duration {
        match (is_busy, self.evidence.is_stalled) {
            (true, true) => STALL_INTERVAL,
            (true, false) => (self.rules.hold_timeout / 20).clamp(STALL_INTERVAL, POLL_INTERVAL),
            (false, _) => POLL_INTERVAL,
        }
    }
}

/// Raises the thread's priority where the system allows it, because real-time work waits for it.
fn raise() {
    let thread = rustix::thread::gettid();
    let _ = rustix::process::setpriority_process(Some(thread), -10); // or normal priority
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)); // or 50 µs
}
