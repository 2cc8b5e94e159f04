//! Host times of a guest's calls, for metrics: a histogram whose steps grow fourfold, from a
//! microsecond to a second.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the steps, in nanoseconds; the last step has none.
pub const ENDS: [u64; 11] = {
    let mut ends = [1 << 10; 11];
    let mut at = 1;
    while at < ends.len() {
        ends[at] = ends[at - 1] << 2;
        at += 1;
    }
    ends
};

/// Kind of calls that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Launches of kernels.
    Kernels,
    /// Launches of graphs.
    Graphs,
    /// Copies.
    Copies,
}

impl CallKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Kernels, Self::Graphs, Self::Copies];

    /// Returns its name for display.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernels => "kernel",
            Self::Graphs => "graph",
            Self::Copies => "copy",
        }
    }
}

/// Times of a guest's calls. Written by the guest alone, read by the daemon. All zero: nothing was
/// counted, or the guest has no profile.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Times {
    calls: [Calls; CallKind::ALL.len()],
}

#[derive(Debug, Default)]
#[repr(C)]
struct Calls {
    nanos: AtomicU64,
    counts: [AtomicU64; ENDS.len() + 1],
}

/// Times of one kind of calls at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimesView {
    /// Kind of calls.
    pub of: CallKind,
    /// Sum of their times.
    pub sum: Duration,
    /// Number of calls in each step.
    pub counts: [u64; ENDS.len() + 1],
}

impl Times {
    /// Publishes the calls of a kind by steps, and the sum of their times.
    pub fn show(&self, of: CallKind, nanos: u64, counts: &[u64; ENDS.len() + 1]) {
        let calls = &self.calls[of as usize];
        calls.nanos.store(nanos, Relaxed);
        calls.counts.iter().zip(counts).for_each(|(to, count)| to.store(*count, Relaxed));
    }

    /// Returns the kinds that have calls.
    pub fn read(&self) -> Vec<TimesView> {
        let view = |of: CallKind| {
            let calls = &self.calls[of as usize];
            let sum = Duration::from_nanos(calls.nanos.load(Relaxed));
            let counts = std::array::from_fn(|at| calls.counts[at].load(Relaxed));
            TimesView { of, sum, counts }
        };
        let all = CallKind::ALL.into_iter().map(view);
        all.filter(|view| view.counts.iter().any(|count| *count > 0)).collect()
    }
}
