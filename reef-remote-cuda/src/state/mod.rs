//! What is known here.
//!
//! *In*: results of calls. *Out*: answers without a message. *Invariant*: what is said here is what
//! the server's driver would say.

mod functions;
mod host_functions;
mod host_memory;
mod thread;

pub(crate) use functions::{Function, Functions};
pub(crate) use host_functions::{note_host_function, run_host_function};
pub(crate) use host_memory::HostMemory;
pub(crate) use thread::{contexts, in_thread};

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Locks, whatever happened to another thread that held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns a number that no object of this process has had.
pub(crate) fn mint() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(2);
    NEXT.fetch_add(1, Ordering::Relaxed) << 4
}
