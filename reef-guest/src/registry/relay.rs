//! The thread that closes the gates of a real-time guest's peers while that guest says that it is
//! busy.
//!
//! The guest's word counts for as long as it lives, has its class, and shows that it is at work.
//! Nothing that it writes, or that others write into its page once it has gone, reaches its peers
//! in any other way.

use super::gates::Gates;
use crate::hold::activity::Activity;
use crate::page::mapping::Mapping;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often a guest is looked at that has woken nobody.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The same of one that is busy, whose next launch wakes nobody, and that was released because it
/// wasn't at work.
const STALL_INTERVAL: Duration = Duration::from_millis(5);

/// Follows one guest until it is dropped.
#[derive(Debug)]
pub(super) struct Relay {
    page: Arc<Mapping>,
    gates: Arc<Gates>,
    stalls: Arc<AtomicU64>,
}

impl Relay {
    /// Starts the thread for the guest with this page, whose bit is `holder`. A guest that is busy
    /// without a sign of work holds others for no longer than `hold_timeout`.
    ///
    /// # Errors
    ///
    /// The system gives no thread.
    pub(super) fn start(
        page: Arc<Mapping>,
        holder: u32,
        hold_timeout: Duration,
    ) -> io::Result<Self> {
        let (gates, stalls) = (Arc::new(Gates::of(holder)), Arc::<AtomicU64>::default());
        let now = Instant::now();
        let evidence =
            WorkEvidence { last: page.activity.evidence(), since: now, is_stalled: false };
        let (to, of) = (gates.clone(), page.clone());
        let follower =
            Follower { gates: to, page: of, hold_timeout, evidence, stalls: stalls.clone() };
        let thread = std::thread::Builder::new().name("reef-relay".into());
        thread.spawn(move || follower.run())?;
        Ok(Self { page, gates, stalls })
    }

    /// The gates of its peers.
    pub(super) fn gates(&self) -> &Gates {
        &self.gates
    }

    /// How often it was busy without a sign of work for so long that its peers were released.
    pub(super) fn stalls(&self) -> u64 {
        self.stalls.load(Relaxed)
    }
}

impl Drop for Relay {
    /// Releases at once; the thread ends by itself, soon.
    fn drop(&mut self) {
        self.gates.end();
        self.page.activity.wake();
    }
}

struct Follower {
    gates: Arc<Gates>,
    page: Arc<Mapping>,
    hold_timeout: Duration,
    evidence: WorkEvidence,
    stalls: Arc<AtomicU64>,
}

/// When a guest last showed that it is at work.
struct WorkEvidence {
    last: (u64, u64),
    since: Instant,
    is_stalled: bool,
}

impl Follower {
    fn run(mut self) {
        raise();
        while !self.gates.is_over() {
            let word = self.page.activity.word();
            let is_busy = Activity::means_busy(word);
            let is_holding = is_busy && self.is_at_work();
            self.gates.hold(is_holding);
            self.page.activity.wait(word, self.interval(is_busy));
        }
    }

    /// Whether a busy guest has launched, or come further, within the time that it has for that.
    fn is_at_work(&mut self) -> bool {
        let (seen, now) = (self.page.activity.evidence(), Instant::now());
        if seen != self.evidence.last || !self.gates.is_held() && !self.evidence.is_stalled {
            self.evidence = WorkEvidence { last: seen, since: now, is_stalled: false };
        }
        let is_stalled = now - self.evidence.since >= self.hold_timeout;
        if is_stalled && !self.evidence.is_stalled {
            self.stalls.fetch_add(1, Relaxed);
        }
        self.evidence.is_stalled = is_stalled;
        !is_stalled
    }

    /// When to look again if the guest doesn't say that something has changed.
    fn interval(&self, is_busy: bool) -> Duration {
        match (is_busy, self.evidence.is_stalled) {
            (true, true) => STALL_INTERVAL,
            (true, false) => (self.hold_timeout / 20).clamp(STALL_INTERVAL, LOOK_INTERVAL),
            (false, _) => LOOK_INTERVAL,
        }
    }
}

/// Has this thread run before others, where the system allows it: real-time work waits for it.
fn raise() {
    let thread = rustix::thread::gettid();
    let _ = rustix::process::setpriority_process(Some(thread), -10); // no right to: it runs as others do
}
