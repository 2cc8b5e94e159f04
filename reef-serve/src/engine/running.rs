//! How many requests are on the device.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A count of requests that run. Out of date when it is read.
#[derive(Debug, Default)]
pub(super) struct Running(AtomicUsize);

impl Running {
    /// Counts one until what this returns is dropped.
    pub(super) fn begin(&self) -> impl Drop + use<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        One(self)
    }

    pub(super) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

struct One<'a>(&'a Running);

impl Drop for One<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
