//! The parts of all threads.

use super::ring::Event;
use super::thread_profile::ThreadProfile;
use super::totals::Totals;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Threads that record at a time; calls of more are counted as lost.
pub const MAX_THREADS: usize = 64;

/// What a process records.
#[derive(Debug)]
pub struct Recorder {
    parts: [ThreadProfile; MAX_THREADS],
    lost: AtomicU64,
}

impl Recorder {
    /// One without any calls: tens of megabytes of address space, of which threads touch what they
    /// use.
    pub fn new() -> Box<Self> {
        // SAFETY: atomics alone, whose zeroes are values.
        unsafe { Box::new_zeroed().assume_init() }
    }

    /// A part for this thread, which gives it back. `None`: too many threads have one.
    pub fn part(&self, thread: u32) -> Option<&ThreadProfile> {
        self.parts.iter().find(|part| part.take(thread))
    }

    /// Counts a call that isn't recorded otherwise.
    pub fn lose(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    /// What all threads have recorded so far, without kernels one by one: for those who ask often.
    pub fn calls(&self) -> Totals {
        let mut all = Totals::default();
        all.lost = self.lost.load(Relaxed);
        self.parts.iter().for_each(|part| part.add_calls(&mut all));
        all
    }

    /// The same with kernels.
    pub fn totals(&self) -> Totals {
        let mut all = self.calls();
        self.parts.iter().for_each(|part| part.add_kernels(&mut all));
        all
    }

    /// Takes out what threads have sent, of each in its order. One thread at a time does that.
    pub fn drain(&self, mut take: impl FnMut(Event)) {
        self.parts.iter().for_each(|part| part.drain(&mut take));
    }
}
