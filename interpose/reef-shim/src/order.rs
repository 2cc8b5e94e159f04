//! Order among the program's threads and those that build variants and stop work.
//!
//! Nothing gets between the slices of a launch.
//!
//! A plain launch is one operation for the driver, and its slices are many. So a thread that slices
//! has this lock alone, and launches, copies, fills and captures of other threads share it. They
//! wait for a sliced launch, which waits for nothing meanwhile. A thread that finds the lock in use
//! launches its kernel as it is.

use crate::driver::state::is_on;
use crate::settings::may_slice;
use std::sync::{Mutex, PoisonError, RwLock, RwLockWriteGuard, TryLockError};

/// Held while a thread of ours compiles in a context of the program.
static COMPILING: Mutex<()> = Mutex::new(());

/// Held while a thread of ours stops work in a context of the program.
static STOPPING: Mutex<()> = Mutex::new(());

static ORDER: RwLock<()> = RwLock::new(());

/// Submits work that must not get between slices.
#[inline]
pub(crate) fn shared<T>(call: impl FnOnce() -> T) -> T {
    // Not in a child of the program, where a thread that has it may be missing.
    let _shared =
        (may_slice() && is_on()).then(|| ORDER.read().unwrap_or_else(PoisonError::into_inner));
    call()
}

/// Returns the lock for slices. `None`: another thread is submitting work.
pub(crate) fn exclusive() -> Option<RwLockWriteGuard<'static, ()>> {
    match ORDER.try_write() {
        Ok(lock) => Some(lock),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Compiles in a context of the program, which doesn't end meanwhile.
pub(crate) fn compile<T>(call: impl FnOnce() -> T) -> T {
    let _compiling = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    call()
}

/// Stops work in a context of the program, which doesn't end meanwhile.
pub(crate) fn stop<T>(call: impl FnOnce() -> T) -> T {
    let _stopping = STOPPING.lock().unwrap_or_else(PoisonError::into_inner);
    call()
}

/// Waits until no thread of ours compiles or stops work in a context that is about to end.
pub(crate) fn settle() {
    drop(COMPILING.lock().unwrap_or_else(PoisonError::into_inner));
    drop(STOPPING.lock().unwrap_or_else(PoisonError::into_inner));
}
