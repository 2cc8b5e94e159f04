//! Captures without gates. Bodies of conditional nodes and command lists allow no memory
//! operations, and a graph that is captured again must keep its shape. Graphs that are captured
//! into get their gates at instantiation.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Numbers of such captures, which are unique.
static UNGATED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// Number of these captures, so that most captures need no lock.
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
