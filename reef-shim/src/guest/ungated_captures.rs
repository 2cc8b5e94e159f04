//! Captures that no gates are put into: bodies of conditional nodes and lists of commands take no
//! memory operations, and a graph that is captured again keeps its shape. Graphs that are captured
//! into get their gates when they are instantiated.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Numbers of such captures, which the driver never gives twice.
static UNGATED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// How many there are, so that most captures need no lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn ungated() -> MutexGuard<'static, Vec<u64>> {
    UNGATED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) fn add(capture: u64) {
    let mut ungated = ungated();
    ungated.push(capture);
    COUNT.store(ungated.len(), Relaxed);
}

pub(crate) fn remove(capture: u64) {
    let mut ungated = ungated();
    ungated.retain(|known| *known != capture);
    COUNT.store(ungated.len(), Relaxed);
}

pub(crate) fn has(capture: u64) -> bool {
    COUNT.load(Relaxed) > 0 && ungated().contains(&capture)
}
