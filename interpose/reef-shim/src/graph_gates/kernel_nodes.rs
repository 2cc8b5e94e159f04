//! Number of kernels in each executable graph of a real-time program, for the prediction of what
//! MPS costs it.
//!
//! A table of a fixed size, which launches read without a lock. If there are more graphs than it
//! has entries, kernels of some aren't counted.

use super::calls;
use crate::settings::settings;
use reef_guest::page::Class;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};

/// Number of entries, and of those that are tried for a handle.
const ENTRIES: usize = 1024;
const TRIES: usize = 8;

/// `CU_GRAPH_NODE_TYPE_KERNEL` and `…_GRAPH`.
const KERNEL: u32 = 0;
const CHILD: u32 = 4;

/// Executable graph. Written with [`WRITER`] locked.
struct Entry {
    /// Handle of the driver. Zero: the entry is free, or is being written.
    exec: AtomicUsize,
    kernels: AtomicU64,
}

static TABLE: [Entry; ENTRIES] =
    [const { Entry { exec: AtomicUsize::new(0), kernels: AtomicU64::new(0) } }; ENTRIES];
static WRITER: Mutex<()> = Mutex::new(());

/// Returns the entries that a handle may have.
fn entries(exec: usize) -> impl Iterator<Item = &'static Entry> {
    let first = ((exec as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as usize;
    (first..first + TRIES).filter_map(|at| TABLE.get(at % ENTRIES))
}

/// Notes an executable graph that the driver has just made from `graph`, if this program asked for
/// being real-time. It takes the place of another one if there is no free entry.
pub(super) fn note(exec: usize, graph: usize) {
    if settings().class == Class::RealTime {
        set(exec, count(graph));
    }
}

fn set(exec: usize, kernels: u64) {
    let _lock = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    let handle = |entry: &Entry| entry.exec.load(Relaxed);
    let known = entries(exec).find(|entry| handle(entry) == exec);
    let free = || entries(exec).find(|entry| handle(entry) == 0);
    if let Some(entry) = known.or_else(free).or_else(|| entries(exec).next()) {
        entry.exec.store(0, Relaxed);
        entry.kernels.store(kernels, Release);
        entry.exec.store(exec, Release);
    }
}

/// Returns the kernels of an executable graph; 0 if they weren't counted.
#[inline]
pub(crate) fn of(exec: usize) -> u64 {
    let mut entries = entries(exec).map(|entry| (entry.exec.load(Acquire), &entry.kernels));
    let own = entries.find(|(of, _)| *of == exec || *of == 0);
    own.filter(|(of, _)| *of != 0).map_or(0, |(_, kernels)| kernels.load(Relaxed))
}

/// Returns the kernels of a graph and of its child graphs. Bodies of conditional nodes, which run
/// any number of times, aren't counted.
fn count(graph: usize) -> u64 {
    let kernels = |node: usize| match calls::kind(node) {
        Some(KERNEL) => 1,
        Some(CHILD) => calls::child(node).map_or(0, count),
        _ => 0,
    };
    calls::nodes(graph).into_iter().flatten().map(kernels).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_found_replaced_and_bounded() {
        for exec in 1..=4 * ENTRIES {
            set(exec << 6, exec as u64);
            assert_eq!(of(exec << 6), exec as u64);
        }
        set(64, 7);
        set(64, 8);
        assert_eq!((of(64), of(63)), (8, 0));
        let found = (1..=4 * ENTRIES).filter(|exec| of(exec << 6) > 0).count();
        assert!((ENTRIES / 2..=ENTRIES).contains(&found), "{found} are kept");
    }
}
