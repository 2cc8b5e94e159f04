//! A device that this process has joined.

use super::meter::Meter;
use super::streams::{MARKS, OWNERS, STREAMS};
use reef_guest::limit::Seen;
use reef_guest::pace::{MARK_EVERY, Spacing};
use reef_guest::page::{Class, Identity, Mapping, Time};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A device that was joined; it stays for the life of the process.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) class: Class,
    /// Its number among this process's devices.
    number: u32,
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
    /// Copies that counted as work.
    pub(crate) copies: AtomicU64,
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
    /// A device of this process's number, from what the daemon gave.
    pub(crate) fn new(
        number: u32,
        who: &Identity,
        page: Mapping,
        peers: Vec<(u32, Mapping)>,
        keeper: Option<Thread>,
        meter: Option<Meter>,
    ) -> Self {
        Self {
            class: who.class,
            number,
            guest: AtomicU32::new(who.guest),
            page,
            spacing: Spacing::new(),
            settled: AtomicU64::new(0),
            seat: Mutex::new(Seat { holder: who.holder, peers }),
            is_orphaned: AtomicBool::new(false),
            keeper,
            meter,
            copies: AtomicU64::new(0),
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

    /// Notes that the stream in this slot runs here.
    pub(crate) fn own(&self, slot: usize) {
        let owner = OWNERS.get(slot);
        owner.inspect(|owner| owner.store(self.number, Ordering::Relaxed));
    }

    /// Whether the stream in this slot ran here last.
    pub(crate) fn owns(&self, slot: usize) -> bool {
        OWNERS.get(slot).is_some_and(|owner| owner.load(Ordering::Relaxed) == self.number)
    }

    pub(crate) fn is_real_time(&self) -> bool {
        self.class == Class::RealTime
    }

    /// Whether a daemon knows of it, so that it may be held.
    pub(crate) fn has_daemon(&self) -> bool {
        self.guest.load(Ordering::Relaxed) != 0
    }

    /// Waits for this process's part of the time, if that is limited; `mark` puts a mark behind the stream's work. A held
    /// guest's launches have a bound of their own.
    #[inline]
    pub(crate) fn wait_for_time(&self, slot: usize, mark: impl FnOnce()) {
        let Some(meter) = &self.meter else { return };
        let is_ahead = |most| {
            let stream = STREAMS.get(slot);
            !self.page.holders.is_closed()
                && stream.is_some_and(|stream| stream.is_ahead(MARKS.read(slot), most))
        };
        meter.wait(&self.spacing, is_ahead, mark, || self.seen(self.progress().1));
    }

    /// What a look shows that found its streams so.
    pub(super) fn seen(&self, is_idle: bool) -> Seen {
        match is_idle {
            true => Seen::Ended,
            false if !self.is_real_time() && self.page.holders.is_closed() => Seen::Held,
            false => Seen::Working,
        }
    }

    /// A thread has waited for work: if that was all there is, its time is known.
    pub(crate) fn waited(&self) {
        if let Some(meter) = &self.meter
            && self.progress().1
        {
            meter.look(Seen::EndedNow);
        }
    }

    /// A number that changes as streams are given work and come further, and whether all have come to their ends.
    pub(super) fn progress(&self) -> (u32, bool) {
        let its = STREAMS.iter().filter(|(slot, ..)| self.owns(*slot));
        its.fold((0, true), |(sum, is_idle), (slot, _, stream)| {
            let done = MARKS.read(slot);
            let sum = sum.wrapping_add(stream.issued()).wrapping_add(done);
            (sum, is_idle && stream.is_idle(done))
        })
    }

    /// A number that changes with each launch, and with each copy that counts as work.
    pub(crate) fn launches(&self) -> u64 {
        let counts = &self.page.counts;
        match self.is_real_time() {
            true => self.page.activity.pulse(),
            false => {
                let all = [&counts.kernels, &counts.graphs, &self.copies];
                all.iter().map(|count| count.load(Ordering::Relaxed)).sum()
            }
        }
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
