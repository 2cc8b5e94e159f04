//! Memory of executable graphs, which they have from a launch until the driver is told to free it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Peak memory of a graph's memory nodes on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub(crate) ordinal: i32,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
struct Exec {
    needs: Vec<Need>,
    /// Set if it was launched, so that it has its memory.
    is_backed: bool,
}

static EXECS: LazyLock<Mutex<HashMap<usize, Exec>>> = LazyLock::new(Mutex::default);
/// Number of graphs with memory: without any, launches of graphs take no lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Runs a function with all graphs, and counts them again.
fn with<T>(run: impl FnOnce(&mut HashMap<usize, Exec>) -> T) -> T {
    let mut execs: MutexGuard<'_, _> =
        EXECS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let result = run(&mut execs);
    COUNT.store(execs.len(), Relaxed);
    result
}

/// Notes a graph with its own memory.
pub(crate) fn note(exec: usize, needs: Vec<Need>) {
    with(|execs| execs.insert(exec, Exec { needs, is_backed: false }));
}

pub(crate) fn forget(exec: usize) {
    if COUNT.load(Relaxed) > 0 {
        with(|execs| execs.remove(&exec));
    }
}

/// Returns the memory that a graph needs and doesn't have.
pub(crate) fn of(exec: usize) -> Vec<Need> {
    if COUNT.load(Relaxed) == 0 {
        return Vec::new();
    }
    with(|execs| match execs.get(&exec) {
        Some(Exec { needs, is_backed: false }) => needs.clone(),
        _ => Vec::new(),
    })
}

/// Notes that a graph has its memory.
pub(crate) fn back(exec: usize) {
    with(|execs| execs.get_mut(&exec).into_iter().for_each(|exec| exec.is_backed = true));
}

/// Notes that graphs may have lost their memory on a device.
pub(crate) fn unback(ordinal: i32) {
    let has = |exec: &&mut Exec| exec.needs.iter().any(|need| need.ordinal == ordinal);
    with(|execs| execs.values_mut().filter(has).for_each(|exec| exec.is_backed = false));
}
