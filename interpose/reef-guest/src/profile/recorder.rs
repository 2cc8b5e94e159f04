//! Recorder: the profiles of all threads of a process.

use super::ring::Event;
use super::thread_profile::ThreadProfile;
use super::totals::Totals;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum threads that record at a time. Calls of further threads are counted as lost.
pub const MAX_THREADS: usize = 64;

/// Recorded calls of a process.
#[derive(Debug)]
pub struct Recorder {
    threads: [ThreadProfile; MAX_THREADS],
    lost: AtomicU64,
}

impl Recorder {
    /// Creates an empty recorder: tens of megabytes of address space, of which threads touch only
    /// the pages that they use.
    pub fn new() -> Box<Self> {
        // SAFETY: atomics alone, whose zeroes are values.
        unsafe { Box::new_zeroed().assume_init() }
    }

    /// Takes a profile for this thread, which has to give it back. `None`: [`MAX_THREADS`] threads
    /// have one.
    pub fn thread_profile(&self, thread: u32) -> Option<&ThreadProfile> {
        self.threads.iter().find(|profile| profile.take(thread))
    }

    /// Counts a call that isn't recorded.
    pub fn lose(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    /// Returns the totals of all threads without those of single kernels, which is fast enough for
    /// periodic use.
    pub fn calls(&self) -> Totals {
        let mut all = Totals::default();
        all.lost = self.lost.load(Relaxed);
        self.threads.iter().for_each(|profile| profile.add_calls(&mut all));
        all
    }

    /// Returns the totals of all threads, with those of each kernel.
    pub fn totals(&self) -> Totals {
        let mut all = self.calls();
        self.threads.iter().for_each(|profile| profile.add_kernels(&mut all));
        all
    }

    /// Takes all calls that threads have sent, those of each thread in order. One thread at a time
    /// may call it.
    pub fn drain(&self, mut take: impl FnMut(Event)) {
        self.threads.iter().for_each(|profile| profile.drain(&mut take));
    }
}
