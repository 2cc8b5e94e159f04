//! Host times of a guest's calls, for metrics: in steps of four times the one before, from a
//! microsecond to a second.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Where steps end, in nanoseconds; the last one has no end.
pub const ENDS: [u64; 11] = {
    let mut ends = [1 << 10; 11];
    let mut at = 1;
    while at < ends.len() {
        ends[at] = ends[at - 1] << 2;
        at += 1;
    }
    ends
};

/// The calls that are counted so.
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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Kernels, Self::Graphs, Self::Copies];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernels => "kernel",
            Self::Graphs => "graph",
            Self::Copies => "copy",
        }
    }
}

/// Written by the guest alone, read by the daemon. All zero: nothing was counted, or there is no
/// profile.
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

/// Times of one kind of calls at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimesView {
    /// Which calls.
    pub of: CallKind,
    /// All of their times together.
    pub sum: Duration,
    /// How many were in each step.
    pub counts: [u64; ENDS.len() + 1],
}

impl Times {
    /// Shows so many calls of a kind, and how long they took together.
    pub fn show(&self, of: CallKind, nanos: u64, counts: &[u64; ENDS.len() + 1]) {
        let calls = &self.calls[of as usize];
        calls.nanos.store(nanos, Relaxed);
        calls.counts.iter().zip(counts).for_each(|(to, count)| to.store(*count, Relaxed));
    }

    /// The kinds that were counted.
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
