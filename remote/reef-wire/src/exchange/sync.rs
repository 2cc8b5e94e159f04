//! Primitives of the protocols, replaced by loom's in models.

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

/// Takes a lock. A panic under it ends the session's thread, and another thread's work goes on.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Sleeps until the condition is notified, for this time at most; may return early.
#[cfg(not(loom))]
pub(crate) fn wait_for<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    time: std::time::Duration,
) -> MutexGuard<'a, T> {
    let waited = condition.wait_timeout(guard, time);
    waited.map_or_else(|poisoned| poisoned.into_inner().0, |(guard, _)| guard)
}

/// Sleeps until the condition is notified; may return early.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
}
