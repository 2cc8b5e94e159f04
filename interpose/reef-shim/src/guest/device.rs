//! Device that this process has joined.

use super::meter::Meter;
use super::phase::state::Phase;
use reef_guest::pace::{MARK_EVERY, Spacing};
use reef_guest::page::{Class, Identity, Mapping, Time};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Time after a hold for which real-time work is expected again. Memory that is about to leave the
/// device may first wait for work, and its guest isn't held any more.
const RECENT_HOLD: Duration = Duration::from_secs(10);

/// Number of joined devices.
static JOINED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of joined devices. When it changes, contexts without a schedule may have one
/// now.
pub(crate) fn joined() -> u64 {
    JOINED.load(Ordering::Acquire)
}

/// Counts a joined device.
pub(super) fn note_joined() {
    JOINED.fetch_add(1, Ordering::Release);
}

/// Joined device. It stays for the life of the process.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) class: Class,
    /// Number of this guest at the daemon. The next daemon gives another one.
    pub(crate) guest: AtomicU32,
    pub(crate) page: Mapping,
    pub(crate) spacing: Spacing,
    /// Launches of a real-time guest that are counted in their streams. It equals its pulse unless
    /// a launch is in progress, which may take long if the driver loads code.
    pub(crate) settled: AtomicU64,
    /// Set while the daemon has ended and no other one has been joined.
    pub(crate) is_orphaned: AtomicBool,
    watchdog: Option<Thread>,
    /// Real-time phases, if it is a best-effort guest.
    pub(crate) phase: Phase,
    /// Meter, if its time is limited.
    pub(crate) meter: Option<Meter>,
    began: Instant,
    /// Time at which launches were last timed, in nanoseconds since `began`.
    timed: AtomicU64,
}

impl Device {
    /// Creates a device from the daemon's answer.
    pub(crate) fn new(
        who: &Identity,
        page: Mapping,
        watchdog: Option<Thread>,
        meter: Option<Meter>,
    ) -> Self {
        Self {
            class: who.class,
            guest: AtomicU32::new(who.guest),
            page,
            spacing: Spacing::new(),
            settled: AtomicU64::new(0),
            is_orphaned: AtomicBool::new(false),
            watchdog,
            phase: Phase::default(),
            meter,
            began: Instant::now(),
            timed: AtomicU64::new(0),
        }
    }

    /// Continues with the next daemon, which holds others for it if its page says that it is busy.
    pub(crate) fn renew(&self, who: &Identity) {
        self.guest.store(who.guest, Ordering::Relaxed);
        self.is_orphaned.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_real_time(&self) -> bool {
        self.class == Class::RealTime
    }

    /// Returns whether a daemon has this guest, so that it may be held.
    pub(crate) fn has_daemon(&self) -> bool {
        self.guest.load(Ordering::Relaxed) != 0
    }

    /// Returns whether this is a best-effort guest that its daemon has not held of late: no
    /// real-time work uses the device.
    pub(super) fn is_undisturbed(&self) -> bool {
        let has_daemon = self.has_daemon() && !self.is_orphaned.load(Ordering::Relaxed);
        let is_recent = || self.page.spans.is_recent(Time::now(), RECENT_HOLD);
        has_daemon && !self.is_real_time() && !is_recent()
    }

    /// Returns the number of launches for each mark.
    pub(crate) fn mark_every(&self) -> u32 {
        self.meter.as_ref().map_or(MARK_EVERY, |_| Meter::mark_every(&self.spacing))
    }

    /// Notes the launches since the last call.
    pub(crate) fn time(&self, launches: u32) {
        let now = self.began.elapsed();
        let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let before = self.timed.swap(nanos, Ordering::Relaxed);
        let passed = Duration::from_nanos(nanos.saturating_sub(before));
        self.spacing.note(launches, passed);
    }

    /// Has all peers held, before a launch. Returns true if they weren't held before.
    #[cold]
    pub(crate) fn hold_peers(&self) -> bool {
        let is_first = self.page.activity.hold();
        if is_first {
            self.page.spans.begin(Time::now());
        }
        is_first
    }

    /// Wakes the watchdog, because this guest is busy now.
    #[cold]
    pub(crate) fn wake_watchdog(&self) {
        self.watchdog.iter().for_each(Thread::unpark);
    }

    /// Has all peers released if nothing was launched since the pulse was `seen`.
    pub(crate) fn release_peers(&self, seen: u64) {
        if self.page.activity.release(seen) {
            self.page.spans.end(Time::now());
        }
    }

    /// Publishes the progress of this guest's work to the daemon.
    pub(super) fn show_progress(&self) {
        self.page.activity.show_progress(self.progress().0.into());
    }
}
