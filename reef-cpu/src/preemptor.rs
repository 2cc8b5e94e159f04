//! The preemptor of the software device: one word that units look at.

use crate::kernel::{EVICT, RESET, RUN};
use reef_core::{Error, PreemptLevel, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A word that units look at before each block and, to reset, that blocks look at while they run.
#[derive(Debug, Clone)]
pub struct Preemptor {
    pub(crate) word: Arc<AtomicU8>,
    level: PreemptLevel,
}

impl Preemptor {
    pub(crate) fn new(level: PreemptLevel) -> Self {
        Self { word: Arc::new(AtomicU8::new(RUN)), level }
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
        self.word.store(value, Ordering::SeqCst);
        Ok(())
    }
}

impl reef_core::Preemptor for Preemptor {
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
        self.word.store(RUN, Ordering::SeqCst);
        Ok(())
    }
}
