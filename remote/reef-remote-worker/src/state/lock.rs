//! Locks of state that is right after each step.

use std::sync::{Mutex, MutexGuard};

/// Locks, whatever happened to another thread that held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
