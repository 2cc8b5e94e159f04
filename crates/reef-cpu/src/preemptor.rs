//! The preemptor of the software device: one word that units poll, and a count of evictions. The
//! work that a queue had at an eviction stays stopped until it is drained, whatever the word says
//! by then.

use crate::kernel::{EVICT, RESET, RUN};
use reef_core::{Error, PreemptLevel, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A word that units check before each block and, to reset, that blocks poll while they run.
#[derive(Debug, Clone)]
pub struct Preemptor {
    pub(crate) stop: Stop,
    level: PreemptLevel,
}

/// Stop word of queues. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    /// Nothing starts unless it is [`RUN`].
    pub(crate) word: Arc<AtomicU8>,
    /// Number of evictions. Grows before the word is raised.
    evictions: Arc<AtomicU64>,
}

impl Stop {
    /// One that is not raised.
    pub(crate) fn new() -> Self {
        Self { word: Arc::new(AtomicU8::new(RUN)), evictions: Arc::default() }
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.word.load(Ordering::SeqCst) != RUN
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::SeqCst)
    }
}

impl Preemptor {
    pub(crate) fn new(level: PreemptLevel) -> Self {
        Self { stop: Stop::new(), level }
    }

    fn raise(&self, level: PreemptLevel, value: u8) -> Result<()> {
        if self.level < level {
            return Err(Error::Level {
                backend: "cpu",
                what: "preemptor",
                asked: level,
                have: self.level,
            });
        }
        if !self.stop.is_raised() {
            self.stop.evictions.fetch_add(1, Ordering::SeqCst);
        }
        self.stop.word.store(value, Ordering::SeqCst);
        Ok(())
    }
}

impl reef_core::Preemptor for Preemptor {
    /// Stopping sets a word of the host and needs no queue.
    fn needs_room(&self) -> bool {
        false
    }

    fn level(&self) -> PreemptLevel {
        self.level
    }

    fn evict(&self) -> Result<()> {
        self.raise(PreemptLevel::DeviceQueue, EVICT)
    }

    fn reset(&self) -> Result<()> {
        self.raise(PreemptLevel::All, RESET)
    }

    fn reactivate(&self) -> Result<()> {
        self.stop.word.store(RUN, Ordering::SeqCst);
        Ok(())
    }
}
