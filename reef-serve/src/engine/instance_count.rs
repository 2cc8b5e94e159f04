//! How many instances of models a device has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Instances that serve the standard protocol, as [`Class::EACH`](crate::class::Class::EACH). Out
/// of date when it is read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lanes(Arc<[AtomicUsize; 2]>);

impl Lanes {
    /// Counts those of a model until the guard is dropped.
    pub(crate) fn add(&self, counts: [usize; 2]) -> Counted {
        for (all, count) in self.0.iter().zip(counts) {
            all.fetch_add(count, Ordering::Relaxed);
        }
        Counted(self.clone(), counts)
    }

    pub(crate) fn counts(&self) -> [usize; 2] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

/// The instances of one model.
#[derive(Debug)]
pub(crate) struct Counted(Lanes, [usize; 2]);

impl Drop for Counted {
    fn drop(&mut self) {
        for (all, count) in self.0.0.iter().zip(self.1) {
            all.fetch_sub(count, Ordering::Relaxed);
        }
    }
}
