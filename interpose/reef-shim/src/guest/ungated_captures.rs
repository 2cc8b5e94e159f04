//! Captures without gates. Bodies of conditional nodes and command lists allow no memory
//! operations, and a graph that is captured again must keep its shape. Graphs that are captured
//! into get their gates at instantiation.
//!
//! Bodies are remembered, because graphs that are put into their nodes may have no gates either. A
//! body that has ended and a later graph may have the same handle: that graph gets its gates at
//! instantiation, too.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Numbers of such captures, which are unique.
static UNGATED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// Number of these captures, so that most captures need no lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Bodies of conditional nodes, by their handles.
static BODIES: LazyLock<Mutex<HashSet<usize>>> = LazyLock::new(Mutex::default);

fn bodies() -> MutexGuard<'static, HashSet<usize>> {
    BODIES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Notes the bodies of a conditional node.
pub(crate) fn add_bodies(graphs: impl IntoIterator<Item = usize>) {
    bodies().extend(graphs);
}

/// Returns whether a graph is the body of a conditional node.
pub(crate) fn is_body(graph: usize) -> bool {
    bodies().contains(&graph)
}

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
