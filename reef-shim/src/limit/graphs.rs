//! What executable graphs take of devices when they are launched, until the driver is told to give
//! it back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// What the memory nodes of a graph take of a device at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub(crate) ordinal: i32,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
struct Exec {
    needs: Vec<Need>,
    /// It was launched, so it has what it needs.
    is_backed: bool,
}

static EXECS: LazyLock<Mutex<HashMap<usize, Exec>>> = LazyLock::new(Mutex::default);
/// How many there are: launches of graphs look no further without any.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Runs something with all graphs, and counts them again.
fn with<T>(run: impl FnOnce(&mut HashMap<usize, Exec>) -> T) -> T {
    let mut execs: MutexGuard<'_, _> =
        EXECS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let result = run(&mut execs);
    COUNT.store(execs.len(), Relaxed);
    result
}

/// Notes a graph with memory of its own.
pub(crate) fn note(exec: usize, needs: Vec<Need>) {
    with(|execs| execs.insert(exec, Exec { needs, is_backed: false }));
}

pub(crate) fn forget(exec: usize) {
    if COUNT.load(Relaxed) > 0 {
        with(|execs| execs.remove(&exec));
    }
}

/// What a graph needs that it doesn't have.
pub(crate) fn of(exec: usize) -> Vec<Need> {
    if COUNT.load(Relaxed) == 0 {
        return Vec::new();
    }
    with(|execs| match execs.get(&exec) {
        Some(Exec { needs, is_backed: false }) => needs.clone(),
        _ => Vec::new(),
    })
}

/// A graph has what it needs.
pub(crate) fn back(exec: usize) {
    with(|execs| execs.get_mut(&exec).into_iter().for_each(|exec| exec.is_backed = true));
}

/// Graphs may have lost what they had of a device.
pub(crate) fn unback(ordinal: i32) {
    let has = |exec: &&mut Exec| exec.needs.iter().any(|need| need.ordinal == ordinal);
    with(|execs| execs.values_mut().filter(has).for_each(|exec| exec.is_backed = false));
}
