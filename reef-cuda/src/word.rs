//! Words of the host that the device writes and the host polls: events and progress.
//!
//! The device writing to the host is cheap; the host asking the driver, or the device polling the host,
//! is not. Each word has a cache line of its own.

use crate::context::Context;
use reef_core::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of one word's place.
const PLACE: usize = 64;
/// Places that are allocated together.
const PAGE: usize = 64;

/// Places that nobody uses, and the pages that they are part of.
#[derive(Debug, Default)]
pub(crate) struct Words {
    free: Vec<(*mut u8, u64)>,
    pages: Vec<*mut u8>,
}

impl Words {
    /// Gives the pages back.
    pub(crate) fn free(self, mut free: impl FnMut(*mut u8)) {
        self.pages.into_iter().for_each(&mut free);
    }
}

/// A word in the host's memory, zero at first.
#[derive(Debug)]
pub(crate) struct Word {
    host: *mut u8,
    device: u64,
    context: Arc<Context>,
}

// SAFETY: the memory is the context's, and all access is atomic.
unsafe impl Send for Word {}
// SAFETY: as above.
unsafe impl Sync for Word {}

impl Word {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self> {
        let mut words = context.words.lock();
        if words.free.is_empty() {
            let (host, device) = context.alloc_host(PLACE * PAGE)?;
            words.pages.push(host);
            for i in 0..PAGE {
                // SAFETY: inside what was allocated.
                words.free.push((unsafe { host.add(i * PLACE) }, device + (i * PLACE) as u64));
            }
        }
        let (host, device) = words.free.pop().expect("filled above");
        drop(words);
        let word = Self { host, device, context: context.clone() };
        word.set(0);
        Ok(word)
    }

    /// Where the device writes.
    pub(crate) fn address(&self) -> u64 {
        self.device
    }

    /// The 32-bit value. What the device wrote before it is seen as well.
    pub(crate) fn get32(&self) -> u32 {
        // SAFETY: the place is ours, aligned, and written by the device in one piece.
        unsafe { AtomicU32::from_ptr(self.host.cast()) }.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self) -> u64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.host.cast()) }.load(Ordering::Acquire)
    }

    /// Only while nothing on the device writes it.
    pub(crate) fn set(&self, value: u64) {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.host.cast()) }.store(value, Ordering::Release);
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        self.context.words.lock().free.push((self.host, self.device));
    }
}
