//! A point in a queue, with the time at which it was reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Reached when a unit gets to it; can be recorded again.
#[derive(Debug, Clone, Default)]
pub struct Event {
    /// Nanoseconds since the device was opened, plus 1; 0 if it was not reached.
    reached: Arc<AtomicU64>,
}

impl Event {
    pub(crate) fn clear(&self) {
        self.reached.store(0, Ordering::Release);
    }

    pub(crate) fn reach(&self, now: Duration) {
        self.reached.store(now.as_nanos() as u64 + 1, Ordering::Release);
    }
}

impl reef_core::Event for Event {
    fn reached(&self) -> Option<Duration> {
        let nanos = self.reached.load(Ordering::Acquire).checked_sub(1)?;
        Some(Duration::from_nanos(nanos))
    }
}
