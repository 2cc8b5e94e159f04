//! A point in a queue, with the time at which the device came to it.

use crate::clock::Clock;
use crate::context::Context;
use crate::word::Word;
use reef_core::Result;
use std::sync::Arc;
use std::time::Duration;

/// A word that a kernel of one thread sets to the device's time.
#[derive(Debug, Clone)]
pub struct Event(Arc<Stamp>);

#[derive(Debug)]
struct Stamp {
    word: Word,
    clock: Arc<Clock>,
}

impl Event {
    pub(crate) fn new(context: &Arc<Context>, clock: &Arc<Clock>) -> Result<Self> {
        Ok(Self(Arc::new(Stamp { word: Word::new(context)?, clock: clock.clone() })))
    }

    /// Where the device writes its time; not reached from now on.
    pub(crate) fn arm(&self) -> u64 {
        self.0.word.set(0);
        self.0.word.address()
    }

    /// The device's own time.
    pub(crate) fn stamp(&self) -> Option<u64> {
        match self.0.word.get() {
            0 => None,
            stamp => Some(stamp),
        }
    }
}

impl reef_core::Event for Event {
    fn reached(&self) -> Option<Duration> {
        self.stamp().map(|stamp| self.0.clock.place(stamp))
    }
}
