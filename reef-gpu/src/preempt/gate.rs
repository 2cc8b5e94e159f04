//! A gate between launches of a stream, for kernels without a guard.
//!
//! It is a word of the host that the stream waits for. Closing it is a store, and costs no call of the
//! driver; what stands behind it stays there.

use crate::driver::context::Context;
use crate::vendor::calls::Vendor;
use crate::vendor::facts::GateSignal;
use parking_lot::Mutex;
use reef_core::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Values of the word.
pub(crate) const OPEN: u32 = 0;
const CLOSED: u32 = 1;

/// The gate of one stream.
#[derive(Debug)]
pub(crate) struct Gate<V: Vendor> {
    word: GateSignal,
    closed: Mutex<Option<Instant>>,
    context: Arc<Context<V>>,
}

// SAFETY: the word is used through atomic accesses only.
unsafe impl<V: Vendor> Send for Gate<V> {}
// SAFETY: as above.
unsafe impl<V: Vendor> Sync for Gate<V> {}

impl<V: Vendor> Gate<V> {
    /// An open one.
    pub(crate) fn new(context: &Arc<Context<V>>) -> Result<Self> {
        let word = context.call().alloc_gate()?;
        Ok(Self { word, closed: Mutex::new(None), context: context.clone() })
    }

    /// Where the stream looks.
    pub(crate) fn address(&self) -> u64 {
        self.word.1
    }

    fn set(&self, value: u32) {
        // SAFETY: the word is there for as long as this, and aligned.
        unsafe { AtomicU32::from_ptr(self.word.0) }.store(value, Ordering::SeqCst);
    }

    pub(crate) fn close(&self) {
        let mut closed = self.closed.lock();
        self.set(CLOSED);
        closed.get_or_insert_with(Instant::now);
    }

    pub(crate) fn open(&self) {
        let mut closed = self.closed.lock();
        self.set(OPEN);
        *closed = None;
    }

    /// For how long it has been closed; `None` if it is open.
    pub(crate) fn closed_for(&self) -> Option<Duration> {
        self.closed.lock().map(|since| since.elapsed())
    }
}

impl<V: Vendor> Drop for Gate<V> {
    fn drop(&mut self) {
        if let Some(call) = self.context.call_to_free() {
            call.free_gate(self.word);
        }
    }
}
