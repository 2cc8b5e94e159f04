//! Number of model instances on a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Instances that serve the standard protocol, for each of
/// [`Class::ALL`](crate::class::Class::ALL). It may be out of date when it is read.
#[derive(Debug, Clone, Default)]
pub(crate) struct InstanceCounts(Arc<[AtomicUsize; 2]>);

impl InstanceCounts {
    /// Counts the instances of a model until the guard is dropped.
    pub(crate) fn add(&self, counts: [usize; 2]) -> CountGuard {
        for (all, count) in self.0.iter().zip(counts) {
            all.fetch_add(count, Ordering::Relaxed);
        }
        CountGuard(self.clone(), counts)
    }

    pub(crate) fn counts(&self) -> [usize; 2] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

/// Count of one model's instances.
#[derive(Debug)]
pub(crate) struct CountGuard(InstanceCounts, [usize; 2]);

impl Drop for CountGuard {
    fn drop(&mut self) {
        for (all, count) in self.0.0.iter().zip(self.1) {
            all.fetch_sub(count, Ordering::Relaxed);
        }
    }
}
