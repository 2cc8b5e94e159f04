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
/// Time for which a gate is closed, at least, before it opens for a starvation relief: its holder
/// may wait for this guest.
const MIN_CLOSED: Duration = Duration::from_millis(800);
/// Reliefs begin at multiples of this time, in nanoseconds. So all guests of a holder have theirs
/// at the same times, every 0.9 s: of 40 guests one would pass for a sixth of the time.
const RELIEF_GRID: u64 = 100_000_000;
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
            return self.rest(TICK_INTERVAL);
        }
        let closed = self.closed.get_or_insert_with(Instant::now).elapsed();
        if let Some(time) = until_relief(closed, Time::now().0) {
            self.rest(time);
            self.relieve();
        }
        self.rest(TICK_INTERVAL);
    }

    /// Opens the gate for a starvation relief, if it is still closed.
    fn relieve(&mut self) {
        let holders = &self.device.page.holders;
        self.closed = None;
        if !holders.is_held() || self.device.phase.is_active() {
            return;
        }
        self.device.page.counts.starvation_reliefs.fetch_add(1, Relaxed);
        holders.override_all();
        std::thread::sleep(STARVATION_RELIEF);
        if self.device.is_orphaned.load(Relaxed) {
            self.device.page.clear(Time::now());
        }
        self.device.phase.unless_active(|| holders.end_override());
    }

    /// Sleeps for this time. Polls the work of a guest whose time is limited in the meantime.
    fn rest(&self, time: Duration) {
        let Some(meter) = &self.device.meter else { return std::thread::sleep(time) };
        let begin = Instant::now();
        while begin.elapsed() < time {
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

/// Returns the time until the next starvation relief of a gate that has been closed for this time,
/// at this time in nanoseconds. `None`: it comes after the next ticks.
fn until_relief(closed: Duration, now: u64) -> Option<Duration> {
    let time = Duration::from_nanos(RELIEF_GRID - now % RELIEF_GRID);
    (closed + time >= MIN_CLOSED && time <= 2 * TICK_INTERVAL).then_some(time)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the times of a guest's reliefs in 20 s, in nanoseconds, if its ticks begin at this
    /// time and each takes as long.
    fn reliefs(begin: u64, tick: u64) -> Vec<u64> {
        let (mut all, mut now, mut since) = (Vec::new(), begin, begin);
        while now < 20_000_000_000 {
            if let Some(time) = until_relief(Duration::from_nanos(now - since), now) {
                now += u64::try_from(time.as_nanos()).unwrap();
                all.push(now);
                now += u64::try_from(STARVATION_RELIEF.as_nanos()).unwrap();
                since = now + tick;
            }
            now += tick;
        }
        all
    }

    #[test]
    fn guests_of_a_holder_have_their_reliefs_at_the_same_times() {
        let guests =
            (0..40).map(|at| reliefs(7_000_000_000 + 499_999 * at, 20_000_000 + 10_007 * at));
        let all: Vec<Vec<u64>> = guests.collect();
        for times in &all {
            let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(
                gaps.clone().all(|gap| (900_000_000..=1_000_000_000).contains(&gap)),
                "{times:?}"
            );
            assert!(times.len() >= 12, "{times:?}");
        }
        let times: BTreeSet<u64> = all.iter().flatten().copied().collect();
        assert!(times.len() <= 40, "{} times in 13 s", times.len());
    }
}
