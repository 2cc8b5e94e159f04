//! A thread for each device: hears the daemon, releases peers when this guest is idle, and opens a gate that has been
//! closed for too long.

use super::calls::{self, Stream};
use super::capture;
use super::device::{Device, MARKS, STREAMS};
use crate::bind::state::Inside;
use reef_guest::join::{Event, Link};
use reef_guest::pace::Key;
use std::io::{PipeReader, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// How often a busy real-time guest is looked at; without a launch for this long, marks are put behind its work.
const LOOK: Duration = Duration::from_micros(50);
/// Looks from one time that a busy guest hears the daemon to the next.
const NEWS_EVERY: u32 = 20;
/// How long a real-time guest is idle before its peers are released: a next request may be on its way.
const HYSTERESIS: Duration = Duration::from_micros(200);
/// How long a gate may be closed before it opens for a breather: what holds it may wait for this guest.
const MOST_CLOSED: Duration = Duration::from_millis(900);
/// How long a breather lasts: 0.4 % of the time.
const BREATHER: Duration = Duration::from_millis(4);
/// How often a held guest looks at the clock.
const TICK: Duration = Duration::from_millis(20);

struct Keeper {
    device: &'static Device,
    link: Option<Link>,
    woken: PipeReader,
    /// Since when the gate has been closed without a break.
    closed: Option<Instant>,
}

/// Starts the thread. Signals go to the program's own threads.
pub(crate) fn start(device: &'static Device, link: Link, woken: PipeReader) {
    let keeper = Keeper { device, link: Some(link), woken, closed: None };
    // SAFETY: sets of signals of ours; the old one is put back.
    let old = unsafe {
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    // Without a thread the gate opens only when others open it: the page is given back instead.
    let name = std::thread::Builder::new().name("reef-keeper".into());
    if name.spawn(move || keeper.run()).is_err() {
        device.page.holders.override_all();
    }
    // SAFETY: the set that was there before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
}

impl Keeper {
    fn run(mut self) {
        let _inside = Inside::always();
        loop {
            self.hear();
            match self.device.is_real_time() {
                true if self.device.page.activity.is_busy() => self.watch(),
                true => self.sleep(Duration::from_secs(3600)),
                false => self.breathe(),
            }
        }
    }

    /// Takes the daemon's news.
    fn hear(&mut self) {
        while let Some(event) = self.link.as_ref().and_then(Link::next) {
            match event {
                Event::Peer(guest, page) => self.device.add_peer(guest, page),
                Event::PeerLeft(guest) => self.device.drop_peer(guest),
                Event::Gone => self.orphaned(),
            }
        }
    }

    /// The daemon is gone, and its own hold with it. Real-time guests go on among themselves.
    fn orphaned(&mut self) {
        self.link = None;
        self.device.page.holders.release(reef_guest::hold::Holders::DAEMON);
    }

    /// Sleeps until there is news, a launch of a real-time guest, or this time is over.
    fn sleep(&mut self, time: Duration) {
        let link = self.link.as_ref().map_or(-1, |link| std::os::fd::AsFd::as_fd(link).as_raw_fd());
        let fd = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = [fd(link), fd(self.woken.as_raw_fd())];
        let time = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: two entries; a negative descriptor is skipped.
        unsafe { libc::poll(fds.as_mut_ptr(), 2, time) };
        if fds[1].revents != 0 {
            let _ = self.woken.read(&mut [0; 64]); // how often it was woken doesn't matter
        }
    }

    /// Looks at a busy real-time guest until it has been idle for a while.
    fn watch(&mut self) {
        let mut idle_since = None;
        for look in 0_u32.. {
            if !self.device.page.activity.is_busy() {
                return;
            }
            if look.is_multiple_of(NEWS_EVERY) {
                self.hear();
            }
            let seen = self.device.page.activity.pulse();
            std::thread::sleep(LOOK);
            if self.device.settled.load(Acquire) != seen
                || self.device.page.activity.pulse() != seen
                || !is_idle(self.device)
            {
                idle_since = None;
                continue;
            }
            if idle_since.get_or_insert_with(Instant::now).elapsed() >= HYSTERESIS {
                self.device.release_peers(seen);
            }
        }
    }

    /// Opens the gate of a best-effort guest for a moment if it has been closed for too long. With the daemon gone
    /// nobody takes the dead away, so then the holders are forgotten.
    fn breathe(&mut self) {
        let holders = &self.device.page.holders;
        if !holders.is_held() {
            self.closed = None;
        } else if self.closed.get_or_insert_with(Instant::now).elapsed() >= MOST_CLOSED {
            self.device.page.counts.breathers.fetch_add(1, Relaxed);
            holders.override_all();
            std::thread::sleep(BREATHER);
            if self.link.is_none() {
                holders.clear();
            }
            holders.heed();
            self.closed = None;
        }
        self.sleep(TICK);
    }
}

/// Whether all streams of a device have come to their ends, as far as is known; puts marks where it isn't.
fn is_idle(device: &Device) -> bool {
    let mut is_idle = true;
    for (slot, key, stream) in STREAMS.iter().filter(|(slot, ..)| device.owns(*slot)) {
        if stream.is_idle(MARKS.read(slot)) {
            continue;
        }
        is_idle = false;
        capture::unless_open(|| {
            if STREAMS.find(key) == Some(slot) {
                stream.mark_rest().into_iter().for_each(|number| mark(slot, key, number));
            }
        });
    }
    is_idle
}

/// Puts a mark behind a stream's work, from this thread.
fn mark(slot: usize, key: Key, number: u32) {
    let Some((context, stream)) = name(key) else { return };
    let Some(context) = super::entries::any(context) else { return };
    let at = context.1.marks.saturating_add(4 * slot as u64);
    let _ = calls::set_context(context.0);
    let _ = calls::write_value(stream.0, at, number, 0); // refused: the next sync tells
}

/// The context, if the key has one, and the stream. `None`: it is another thread's own.
fn name(key: Key) -> Option<(Option<usize>, Stream)> {
    match key {
        Key(handle, 0) => Some((None, Stream(handle))),
        Key(context, 1) => Some((Some(context), Stream(1))),
        _ => None,
    }
}
