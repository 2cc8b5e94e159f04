//! Captures that no gates are put into: bodies of conditional nodes and lists of commands take no
//! memory operations, and a graph that is captured again keeps its shape. Graphs that are captured
//! into get their gates when they are instantiated.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Numbers of such captures, which the driver never gives twice.
static BARE: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// How many there are, so that most captures need no lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn bare() -> MutexGuard<'static, Vec<u64>> {
    BARE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) fn add(capture: u64) {
    let mut bare = bare();
    bare.push(capture);
    COUNT.store(bare.len(), Relaxed);
}

pub(crate) fn remove(capture: u64) {
    let mut bare = bare();
    bare.retain(|known| *known != capture);
    COUNT.store(bare.len(), Relaxed);
}

pub(crate) fn has(capture: u64) -> bool {
    COUNT.load(Relaxed) > 0 && bare().contains(&capture)
}
