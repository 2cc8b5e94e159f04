//! A point in a queue, with the time at which the device came to it.

use crate::driver::clock::Clock;
use crate::driver::context::Context;
use crate::driver::handles::cloned;
use crate::driver::signal::HostSignal;
use crate::hal::calls::Vendor;
use reef_core::Result;
use std::sync::Arc;
use std::time::Duration;

/// A word that a kernel of one thread sets to the device's time.
#[derive(Debug)]
pub struct Event<V: Vendor>(Arc<Stamp<V>>);

cloned!(Event);

#[derive(Debug)]
struct Stamp<V: Vendor> {
    word: HostSignal<V>,
    clock: Arc<Clock>,
}

impl<V: Vendor> Event<V> {
    pub(crate) fn new(context: &Arc<Context<V>>, clock: &Arc<Clock>) -> Result<Self> {
        Ok(Self(Arc::new(Stamp { word: HostSignal::new(context)?, clock: clock.clone() })))
    }

    /// Resets the event to "not reached" and returns the address that the device writes its time
    /// to.
    pub(crate) fn arm(&self) -> u64 {
        self.0.word.set(0);
        self.0.word.address()
    }

    /// Reached when `other` was, which notes no more.
    pub(crate) fn copy(&self, other: &Self) {
        self.0.word.set(other.0.word.get());
    }

    /// Returns whether there is another handle of it.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// The device's own time.
    pub(crate) fn stamp(&self) -> Option<u64> {
        match self.0.word.get() {
            0 => None,
            stamp => Some(stamp),
        }
    }
}

impl<V: Vendor> reef_core::Event for Event<V> {
    fn reached(&self) -> Option<Duration> {
        self.stamp().map(|stamp| self.0.clock.place(stamp))
    }
}
