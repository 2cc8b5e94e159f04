//! A device that this process has joined.

use super::meter::Meter;
use reef_guest::pace::{MARK_EVERY, Spacing};
use reef_guest::page::{Class, Identity, Mapping, Time};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How many devices were joined.
static JOINED: AtomicU64 = AtomicU64::new(0);

/// How many devices were joined: what wasn't scheduled may be when this changes.
pub(crate) fn joined() -> u64 {
    JOINED.load(Ordering::Acquire)
}

/// Notes that one more was joined.
pub(super) fn note_joined() {
    JOINED.fetch_add(1, Ordering::Release);
}

/// A device that was joined; it stays for the life of the process.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) class: Class,
    /// The daemon's number of this guest; the next daemon has another one.
    pub(crate) guest: AtomicU32,
    pub(crate) page: Mapping,
    pub(crate) spacing: Spacing,
    /// Launches of a real-time guest that are counted in their streams: as many as its pulse says, unless one is under
    /// way, which may take long if the driver loads code.
    pub(crate) settled: AtomicU64,
    seat: Mutex<Seat>,
    /// The daemon has gone, and there is no other one yet.
    pub(crate) is_orphaned: AtomicBool,
    keeper: Option<Thread>,
    /// If its time is limited.
    pub(crate) meter: Option<Meter>,
    began: Instant,
    /// When launches were last timed, in nanoseconds since `began`.
    timed: AtomicU64,
}

/// A real-time guest's place among the guests of its device, as the daemon gave it.
#[derive(Debug)]
struct Seat {
    /// Its bit in its peers' holders words.
    holder: u32,
    peers: Vec<(u32, Mapping)>,
}

impl Seat {
    fn hold(&self, now: Time) {
        self.peers.iter().for_each(|(_, page)| page.hold(self.holder, now));
    }

    fn release(&self, now: Time) {
        self.peers.iter().for_each(|(_, page)| page.release(self.holder, now));
    }
}

impl Device {
    /// A device, from what the daemon gave.
    pub(crate) fn new(
        who: &Identity,
        page: Mapping,
        peers: Vec<(u32, Mapping)>,
        keeper: Option<Thread>,
        meter: Option<Meter>,
    ) -> Self {
        Self {
            class: who.class,
            guest: AtomicU32::new(who.guest),
            page,
            spacing: Spacing::new(),
            settled: AtomicU64::new(0),
            seat: Mutex::new(Seat { holder: who.holder, peers }),
            is_orphaned: AtomicBool::new(false),
            keeper,
            meter,
            began: Instant::now(),
            timed: AtomicU64::new(0),
        }
    }

    /// Goes on under the next daemon, with what that one gave. Those who were held stay so while this guest is busy; those
    /// whom the daemon has held for it, as it was busy then, are released if it isn't now.
    pub(crate) fn renew(&self, who: &Identity, peers: Vec<(u32, Mapping)>) {
        let (mut seat, now) = (self.seat(), Time::now());
        seat.release(now);
        *seat = Seat { holder: who.holder, peers };
        match self.page.activity.is_busy() {
            true => seat.hold(now),
            false => seat.release(now),
        }
        self.guest.store(who.guest, Ordering::Relaxed);
        self.is_orphaned.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_real_time(&self) -> bool {
        self.class == Class::RealTime
    }

    /// Whether a daemon knows of it, so that it may be held.
    pub(crate) fn has_daemon(&self) -> bool {
        self.guest.load(Ordering::Relaxed) != 0
    }

    /// How many launches a mark is good for.
    pub(crate) fn mark_every(&self) -> u32 {
        self.meter.as_ref().map_or(MARK_EVERY, |_| Meter::mark_every(&self.spacing))
    }

    /// Notes that so many launches were made since this was last called.
    pub(crate) fn time(&self, launches: u32) {
        let now = self.began.elapsed();
        let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let before = self.timed.swap(nanos, Ordering::Relaxed);
        let passed = Duration::from_nanos(nanos.saturating_sub(before));
        self.spacing.note(launches, passed);
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Holds all peers, before a launch.
    #[cold]
    pub(crate) fn hold_peers(&self) {
        let (seat, now) = (self.seat(), Time::now());
        if !self.page.activity.is_busy() {
            self.page.spans.begin(now);
        }
        self.page.activity.hold(|| seat.hold(now));
    }

    /// Tells the keeper that this guest is busy now.
    #[cold]
    pub(crate) fn wake_keeper(&self) {
        self.keeper.iter().for_each(Thread::unpark);
    }

    /// Releases all peers if nothing was launched since the pulse was `seen`.
    pub(crate) fn release_peers(&self, seen: u64) {
        let (seat, now) = (self.seat(), Time::now());
        if self.page.activity.release(seen, || seat.release(now)) {
            self.page.spans.end(now);
        }
    }

    /// Adds a peer, which may have been held or not while it was on its way.
    pub(crate) fn add_peer(&self, guest: u32, page: Mapping) {
        let (mut seat, now) = (self.seat(), Time::now());
        match self.page.activity.is_busy() {
            true => page.hold(seat.holder, now),
            false => page.release(seat.holder, now),
        }
        seat.peers.push((guest, page));
    }

    pub(crate) fn drop_peer(&self, guest: u32) {
        self.seat().peers.retain(|(peer, _)| *peer != guest);
    }
}
