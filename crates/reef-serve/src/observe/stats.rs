//! Counts and times for the standard protocol's statistics.

use crate::requests::job::Phases;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A count, and the sum of its times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) time: Duration,
}

impl Sum {
    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.time += time;
    }
}

/// Figures of a model so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) success: Sum,
    pub(crate) fail: Sum,
    pub(crate) queue: Sum,
    pub(crate) input: Sum,
    pub(crate) infer: Sum,
    pub(crate) output: Sum,
    /// Milliseconds since 1970 of the last request.
    pub(crate) last: u64,
}

/// Figures of a model, shared by all of its replicas.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    numbers: Mutex<Numbers>,
    /// Requests that ran in a batch, except the first of each batch.
    joined: AtomicU64,
}

impl Stats {
    pub(crate) fn note(&self, phases: &Phases, is_served: bool) {
        let mut numbers = self.numbers.lock();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        numbers.last = now.as_millis() as u64;
        if !is_served {
            return numbers.fail.add(phases.total());
        }
        numbers.success.add(phases.total());
        numbers.queue.add(phases.queue);
        numbers.input.add(phases.input);
        numbers.infer.add(phases.infer);
        numbers.output.add(phases.output);
    }

    pub(crate) fn numbers(&self) -> Numbers {
        *self.numbers.lock()
    }

    /// Notes that this many requests ran in one batch.
    pub(crate) fn note_batch(&self, requests: u64) {
        self.joined.fetch_add(requests.saturating_sub(1), Ordering::Relaxed);
    }

    /// Number of executions, which is below the number of requests if batches ran.
    pub(crate) fn executions(&self) -> u64 {
        self.numbers().success.count.saturating_sub(self.joined.load(Ordering::Relaxed))
    }
}
