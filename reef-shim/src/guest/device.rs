//! A device that this process has joined.

use reef_guest::hold::Holders;
use reef_guest::join::{Joined, Link};
use reef_guest::pace::{Key, Spacing, Streams};
use reef_guest::page::{Class, Identity, Mapping};
use std::io::PipeWriter;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Most streams that are paced; others are passed on.
pub(crate) const MOST_STREAMS: usize = 4096;

/// All streams of this process.
pub(crate) static STREAMS: Streams<MOST_STREAMS> = Streams::new();

/// How far each stream has come. Written by devices.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct Marks([AtomicU32; MOST_STREAMS]);

pub(crate) static MARKS: Marks = Marks([const { AtomicU32::new(0) }; MOST_STREAMS]);

impl Marks {
    pub(crate) fn read(&self, slot: usize) -> u32 {
        self.0.get(slot).map_or(0, |mark| mark.load(Ordering::Acquire))
    }

    pub(crate) fn address(&self) -> *const Self {
        self
    }
}

/// On which device each stream runs, by this process's number as a guest there. Written before a launch is counted.
static OWNERS: [AtomicU32; MOST_STREAMS] = [const { AtomicU32::new(0) }; MOST_STREAMS];

/// A device that was joined; it stays for the life of the process.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) who: Identity,
    pub(crate) page: Mapping,
    pub(crate) spacing: Spacing,
    /// Launches of a real-time guest that are counted in their streams: as many as its pulse says, unless one is under
    /// way, which may take long if the driver loads code.
    pub(crate) settled: AtomicU64,
    peers: Mutex<Vec<(u32, Mapping)>>,
    /// Wakes the keeper.
    pub(crate) wake: Option<PipeWriter>,
    began: Instant,
    /// When launches were last timed, in nanoseconds since `began`.
    timed: AtomicU64,
}

impl Device {
    /// A device from what the daemon gave, and the connection for its keeper.
    pub(crate) fn new(joined: Joined, wake: Option<PipeWriter>) -> (Self, Link) {
        let Joined { who, page, peers, link } = joined;
        let (spacing, peers, began) = (Spacing::new(), Mutex::new(peers), Instant::now());
        let (settled, timed) = (AtomicU64::new(0), AtomicU64::new(0));
        (Self { who, page, spacing, settled, peers, wake, began, timed }, link)
    }

    /// Notes that the stream in this slot runs here.
    pub(crate) fn own(&self, slot: usize) {
        let owner = OWNERS.get(slot);
        owner.inspect(|owner| owner.store(self.who.guest, Ordering::Relaxed));
    }

    /// Whether the stream in this slot ran here last.
    pub(crate) fn owns(&self, slot: usize) -> bool {
        OWNERS.get(slot).is_some_and(|owner| owner.load(Ordering::Relaxed) == self.who.guest)
    }

    pub(crate) fn is_real_time(&self) -> bool {
        self.who.class == Class::RealTime
    }

    /// Notes that so many launches were made since this was last called.
    pub(crate) fn time(&self, launches: u32) {
        let now = self.began.elapsed();
        let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let before = self.timed.swap(nanos, Ordering::Relaxed);
        let passed = Duration::from_nanos(nanos.saturating_sub(before));
        self.spacing.note(launches, passed);
    }

    fn peers(&self) -> MutexGuard<'_, Vec<(u32, Mapping)>> {
        self.peers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Holds all peers, before a launch.
    #[cold]
    pub(crate) fn hold_peers(&self) {
        let (peers, bit) = (self.peers(), self.who.holder);
        self.page.activity.hold(|| peers.iter().for_each(|(_, page)| page.holders.hold(bit)));
    }

    /// Tells the keeper that this guest is busy now.
    #[cold]
    pub(crate) fn wake_keeper(&self) {
        if let Some(mut wake) = self.wake.as_ref() {
            let _ = std::io::Write::write(&mut wake, b"."); // full: it is awake
        }
    }

    /// Releases all peers if nothing was launched since the pulse was `seen`.
    pub(crate) fn release_peers(&self, seen: u64) {
        let (peers, bit) = (self.peers(), self.who.holder);
        let release = |page: &Holders| page.release(bit);
        self.page
            .activity
            .release(seen, || peers.iter().for_each(|(_, page)| release(&page.holders)));
    }

    /// Adds a peer, which may have been held or not while it was on its way.
    pub(crate) fn add_peer(&self, guest: u32, page: Mapping) {
        let mut peers = self.peers();
        match self.page.activity.is_busy() {
            true => page.holders.hold(self.who.holder),
            false => page.holders.release(self.who.holder),
        }
        peers.push((guest, page));
    }

    pub(crate) fn drop_peer(&self, guest: u32) {
        self.peers().retain(|(peer, _)| *peer != guest);
    }
}

/// The key of a stream in a context.
pub(crate) fn key(context: usize, stream: super::calls::Stream) -> Key {
    match stream.0 {
        1 => Key(context, 1),
        2 => Key(context, thread() << 2 | 2),
        handle => Key(handle, 0),
    }
}

/// A number of this thread: where a word of its own stands.
fn thread() -> usize {
    thread_local!(static WORD: u8 = const { 0 });
    WORD.with(|word| std::ptr::from_ref(word) as usize)
}
