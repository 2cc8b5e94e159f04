//! Events: times that the server pushes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A point in a remote queue.
#[derive(Debug, Clone, Default)]
pub struct Event {
    /// Nanoseconds plus one; 0 while it was not reached. Written by the thread that reads frames.
    at: Arc<AtomicU64>,
}

impl Event {
    pub(super) fn set(&self, at: Duration) {
        self.at.store(at.as_nanos() as u64 + 1, Ordering::Release);
    }
}

impl reef_core::Event for Event {
    fn reached(&self) -> Option<Duration> {
        self.at.load(Ordering::Acquire).checked_sub(1).map(Duration::from_nanos)
    }
}
