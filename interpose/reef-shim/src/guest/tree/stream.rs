//! Stream: its counts, and the progress of the device.

use super::context::Context;
use super::memory::{Area, WORDS};
use crate::driver::calls;
use reef_guest::pace;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Name of a stream: a number of the driver, or a handle, with the context for a default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub(crate) u64, pub(crate) usize);

/// Record of a stream. Its position, its word and its counts stay when another stream takes it.
#[derive(Debug)]
pub(crate) struct Stream {
    key: (AtomicU64, AtomicUsize),
    /// Handle for the driver's functions; 1 and 2 are the default streams.
    handle: AtomicUsize,
    /// Written last when it is taken, first when it ends.
    is_live: AtomicBool,
    context: AtomicPtr<Context>,
    /// Number of the last mark that was reached. Written by the device.
    word: &'static AtomicU32,
    /// Address of that word on the device.
    address: AtomicU64,
    pub(crate) counts: pace::Stream,
}

impl Stream {
    fn new(word: &'static AtomicU32) -> Self {
        Self {
            key: (AtomicU64::new(0), AtomicUsize::new(0)),
            handle: AtomicUsize::new(0),
            is_live: AtomicBool::new(false),
            context: AtomicPtr::new(std::ptr::null_mut()),
            word,
            address: AtomicU64::new(0),
            counts: pace::Stream::new(),
        }
    }

    fn take(&self, key: Key, handle: usize, context: &'static Context, address: u64) {
        self.key.0.store(key.0, Relaxed);
        self.key.1.store(key.1, Relaxed);
        self.handle.store(handle, Relaxed);
        self.context.store(std::ptr::from_ref(context).cast_mut(), Relaxed);
        self.address.store(address, Relaxed);
        self.is_live.store(true, Release);
    }

    /// Returns whether it is this stream, and is live.
    pub(crate) fn is(&self, key: Key) -> bool {
        let is_live = self.is_live.load(Acquire);
        is_live && Key(self.key.0.load(Relaxed), self.key.1.load(Relaxed)) == key
    }

    pub(crate) fn key(&self) -> Key {
        Key(self.key.0.load(Relaxed), self.key.1.load(Relaxed))
    }

    /// Returns whether its handle may be used.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live.load(Acquire)
    }

    /// Invalidates its handle.
    pub(crate) fn end(&self) {
        self.is_live.store(false, Release);
    }

    /// Returns its context. Only a stream that was found has one.
    pub(crate) fn context(&self) -> &'static Context {
        // SAFETY: streams are found once `take` has written a context, and contexts stay for the
        // life of the process.
        unsafe { &*self.context.load(Relaxed) }
    }

    pub(crate) fn handle(&self) -> usize {
        self.handle.load(Relaxed)
    }
    /// Returns whether it is a thread's own, which no other thread can name.
    pub(crate) fn is_own(&self) -> bool {
        self.handle() == 2
    }

    /// Returns the number of the last mark that was reached.
    pub(crate) fn done(&self) -> u32 {
        self.word.load(Acquire)
    }

    /// Returns whether all of its work has ended, as far as is known.
    pub(crate) fn is_idle(&self) -> bool {
        self.counts.is_idle(self.done())
    }

    /// Notes that all of its work has ended.
    pub(crate) fn has_run(&self) {
        self.counts.note_sync(self.counts.issued());
    }

    /// Inserts a mark with this number after its work. Its context, or one that has the same
    /// memory, must be current.
    pub(crate) fn mark(&self, number: u32) -> Option<u32> {
        // SAFETY: the word is this stream's own of the marks, which its context keeps registered.
        unsafe { calls::write_value(self.handle(), self.address.load(Relaxed), number, 0) }
    }

    /// Inserts a mark after all of its remaining work. Without one its end would be unknown.
    pub(crate) fn mark_last(&self) {
        if !self.is_idle() && self.mark(self.counts.issued()) != Some(0) {
            self.has_run();
        }
    }
}

/// Block of streams whose words share a page.
#[derive(Debug)]
pub(super) struct Block {
    area: Area,
    /// Address of the words on the device; zero if its context has none here.
    address: AtomicU64,
    streams: Box<[Stream]>,
    /// Number of streams that were ever taken.
    used: AtomicUsize,
}

impl Block {
    pub(super) fn new() -> std::io::Result<Self> {
        let area = Area::words()?;
        let streams = (0..WORDS).map(|at| Stream::new(area.word(at))).collect();
        Ok(Self { area, address: AtomicU64::new(0), streams, used: AtomicUsize::new(0) })
    }

    /// Registers its words in the current context. Without them no stream of it is taken.
    pub(super) fn register(&self) -> Result<(), u32> {
        self.address.store(0, Relaxed);
        self.address.store(self.area.register()?, Relaxed);
        Ok(())
    }

    /// Returns the streams that were ever taken.
    pub(super) fn streams(&'static self) -> impl Iterator<Item = &'static Stream> {
        self.streams.iter().take(self.used.load(Acquire))
    }

    /// Takes a record for a stream. `None`: all have work.
    pub(super) fn take(
        &'static self,
        key: Key,
        handle: usize,
        context: &'static Context,
    ) -> Option<&'static Stream> {
        let (used, base) = (self.used.load(Acquire), self.address.load(Relaxed));
        if base == 0 {
            return None;
        }
        let is_free = |stream: &Stream| !stream.is_live() && stream.is_idle();
        let free = self.streams().position(is_free);
        let at = free.or((used < WORDS).then_some(used))?;
        let stream = self.streams.get(at)?;
        stream.take(key, handle, context, base + 4 * at as u64);
        self.used.store(used.max(at + 1), Release);
        Some(stream)
    }
}
