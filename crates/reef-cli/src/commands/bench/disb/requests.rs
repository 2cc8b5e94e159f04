//! Times of requests, in the phases that DISB measures.

use crate::workload::clock::{histogram, note};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Time of each phase of a request, or of many requests.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Phases {
    /// The image becomes what the network reads.
    pub(crate) preprocess: Duration,
    /// Time from submission to the end, copies included.
    pub(crate) infer: Duration,
    /// The output is read.
    pub(crate) postprocess: Duration,
}

impl Phases {
    pub(crate) fn total(&self) -> Duration {
        self.preprocess + self.infer + self.postprocess
    }

    fn add(&mut self, other: &Self) {
        self.preprocess += other.preprocess;
        self.infer += other.infer;
        self.postprocess += other.postprocess;
    }

    /// The mean of `n`.
    pub(crate) fn over(&self, n: u64) -> Self {
        let mean = |sum: Duration| match n {
            0 => Duration::ZERO,
            n => Duration::from_nanos((sum.as_nanos() / u128::from(n)) as u64),
        };
        Self {
            preprocess: mean(self.preprocess),
            infer: mean(self.infer),
            postprocess: mean(self.postprocess),
        }
    }
}

/// Requests of a task and their times.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    pub(crate) sum: Phases,
    /// Latency of whole requests, from their launch on, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// Latency from the moment at which a request was due, which may be before its launch.
    pub(crate) from_due: Histogram<u64>,
    /// Moments to launch that were missed.
    pub(crate) skipped: u64,
    /// Requests that had not finished long after the end.
    pub(crate) unfinished: u64,
}

impl Default for Requests {
    fn default() -> Self {
        let (latency, from_due) = (histogram(), histogram());
        Self { sum: Phases::default(), latency, from_due, skipped: 0, unfinished: 0 }
    }
}

impl Requests {
    /// Adds a request that launched so `late`.
    pub(crate) fn note(&mut self, phases: &Phases, late: Duration) {
        self.sum.add(phases);
        note(&mut self.latency, phases.total());
        note(&mut self.from_due, late + phases.total());
    }

    /// Adds the requests of another task.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sum.add(&other.sum);
        self.latency.add(&other.latency).expect("histograms of one kind");
        self.from_due.add(&other.from_due).expect("histograms of one kind");
        self.skipped += other.skipped;
        self.unfinished += other.unfinished;
    }

    pub(crate) fn mean(&self) -> Phases {
        self.sum.over(self.latency.len())
    }
}
