//! Watchdog: a thread for each device. It releases peers when this guest is idle, and opens a gate
//! that has been closed for too long.
//!
//! It may call the driver, so it shares the program's file descriptors and opens none itself. It is
//! woken by a futex.

use super::capture;
use super::device::Device;
use super::iteration::SeenIteration;
use super::link;
use super::membership::Membership;
use super::meter::{self, Meter};
use super::phase::state::is_in_phase;
use super::tree::branch::streams;
use super::tree::stream::Stream;
use crate::driver::state;
use crate::thread;
use reef_guest::page::Time;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Interval between polls of a busy real-time guest. Without a launch for this time, marks are
/// inserted after its work.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// Time for which a real-time guest is idle before its peers are released: its next request may be
/// on its way.
const HYSTERESIS: Duration = Duration::from_micros(200);
/// Time for which it is idle in a phase, in which its next launch is on its way: between two tokens
/// of a text, an engine chooses and sends one.
const PHASE_HYSTERESIS: Duration = Duration::from_millis(20);
/// Maximum time for which a gate is closed before it opens for a starvation relief: its holder may
/// wait for this guest.
const MAX_CLOSED: Duration = Duration::from_millis(900);
/// Duration of a starvation relief: 0.4 % of the time.
const STARVATION_RELIEF: Duration = Duration::from_millis(4);
/// Time for which a best-effort guest without progress counts as busy: its streams may have ended
/// unseen.
const STALE_TIMEOUT: Duration = Duration::from_millis(200);
/// Interval between polls of a held guest.
const TICK_INTERVAL: Duration = Duration::from_millis(20);

struct Watchdog {
    member: &'static Membership,
    device: &'static Device,
    /// Time since which the gate has been closed without a break.
    closed: Option<Instant>,
    progress: Progress,
}

/// Progress of a best-effort guest's streams at the last poll.
#[derive(Debug)]
struct Progress {
    seen: u32,
    /// Time of the last change.
    changed: Instant,
    polled: Instant,
}

/// Starts the thread, which sleeps until the device is joined.
pub(super) fn start(member: &'static Membership) -> io::Result<Thread> {
    thread::spawn("reef-watchdog", move || {
        let device = loop {
            match member.device() {
                Some(device) => break device,
                None => std::thread::park(),
            }
        };
        let now = Instant::now();
        let progress = Progress { seen: 0, changed: now, polled: now };
        Watchdog { member, device, closed: None, progress }.run();
    })
}

impl Watchdog {
    fn run(mut self) {
        loop {
            if !self.device.is_real_time() {
                self.join_again();
                self.breathe();
                self.count_busy();
            } else if self.device.page.activity.is_busy() {
                self.watch();
            } else {
                std::thread::park(); // a launch that makes it busy wakes it
            }
        }
    }

    /// Joins the daemon again after an absence.
    fn join_again(&self) {
        let file = self.member.absence.check(self.device.page.is_away());
        let joined = file.map_or(Ok(()), |file| link::start_again(self.member, file));
        joined.unwrap_or_else(|error| self.member.refuse(&format!("no link again: {error}")));
    }

    /// Polls a busy real-time guest until it has been idle for a while.
    fn watch(&mut self) {
        let (mut idle_since, mut seen_iteration) = (None, SeenIteration::begin(self.device));
        while self.device.page.activity.is_busy() {
            let seen = self.device.page.activity.pulse();
            std::thread::sleep(POLL_INTERVAL);
            self.device.show_progress();
            if let Some(meter) = &self.device.meter {
                self.measure(meter);
            }
            if !self.is_settled(seen)
                || self.device.page.activity.pulse() != seen
                || !is_idle(self.device)
            {
                if idle_since.take().is_some() {
                    seen_iteration = SeenIteration::begin(self.device);
                }
                continue;
            }
            if idle_since.is_none() {
                seen_iteration.end(self.device);
            }
            if idle_since.get_or_insert_with(Instant::now).elapsed() >= hysteresis() {
                self.device.release_peers(seen);
            }
        }
    }

    /// Returns whether the launches up to this pulse are counted in their streams. After a panic
    /// of this library some of them never are, and nothing is launched through it any more.
    fn is_settled(&self, seen: u64) -> bool {
        self.device.settled.load(Acquire) == seen || !state::is_on()
    }

    /// Opens the gate of a best-effort guest for a moment if it has been closed for too long.
    /// Without a daemon no process removes dead holders, so all holders are cleared then.
    fn breathe(&mut self) {
        let holders = &self.device.page.holders;
        if !holders.is_held() || self.device.phase.is_active() {
            self.closed = None; // or open, as long as the phase lasts
        } else if self.closed.get_or_insert_with(Instant::now).elapsed() >= MAX_CLOSED {
            self.device.page.counts.starvation_reliefs.fetch_add(1, Relaxed);
            holders.override_all();
            std::thread::sleep(STARVATION_RELIEF);
            if self.device.is_orphaned.load(Relaxed) {
                self.device.page.clear(Time::now());
            }
            self.device.phase.unless_active(|| holders.end_override());
            self.closed = None;
        }
        self.rest();
    }

    /// Sleeps for a tick. Polls the work of a guest whose time is limited in the meantime.
    fn rest(&mut self) {
        let Some(meter) = &self.device.meter else { return std::thread::sleep(TICK_INTERVAL) };
        let begin = Instant::now();
        while begin.elapsed() < TICK_INTERVAL {
            std::thread::sleep(meter::POLL_INTERVAL);
            self.measure(meter);
        }
    }

    /// Counts the device time since the last poll.
    fn measure(&self, meter: &Meter) {
        meter.poll(self.device.work_state(is_idle(self.device)));
    }
}

impl Watchdog {
    /// Counts the time since the last poll as busy if the gate is open and launches are in flight.
    fn count_busy(&mut self) {
        let now = Instant::now();
        let (seen, is_idle) = self.device.progress();
        self.device.phase.show_progress(seen.into());
        let Progress { changed, polled, .. } = self.progress;
        let changed = if seen == self.progress.seen { changed } else { now };
        self.progress = Progress { seen, changed, polled: now };
        let page = &self.device.page;
        if !is_idle && !page.holders.is_closed() && now - changed < STALE_TIMEOUT {
            let nanos = u64::try_from((now - polled).as_nanos()).unwrap_or(u64::MAX);
            page.counts.busy_ns.fetch_add(nanos, Relaxed);
        }
    }
}

/// Returns the time for which a real-time guest is idle before its peers are released.
fn hysteresis() -> Duration {
    if is_in_phase() { PHASE_HYSTERESIS } else { HYSTERESIS }
}

/// Returns whether all streams of a device are idle, as far as is known. Inserts marks where it
/// isn't known.
fn is_idle(device: &Device) -> bool {
    let mut is_idle = true;
    for stream in streams(device).filter(|stream| !stream.is_idle()) {
        is_idle = false;
        capture::unless_open(|| {
            // A thread that ends a stream or its context marks them first, and then waits until
            // this closure has returned.
            if stream.is_live() && stream.context().is_live() && !stream.is_own() {
                let number = stream.counts.mark_again(stream.done());
                number.into_iter().for_each(|number| mark(stream, number));
            }
        });
    }
    is_idle
}

/// Inserts a mark after a stream's work, from this thread. After a fault of the context the driver
/// refuses it, and the work has ended.
fn mark(stream: &Stream, number: u32) {
    if stream.context().within(|| stream.mark(number)) != Some(0) {
        stream.counts.note_sync(number);
    }
}
