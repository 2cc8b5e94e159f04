//! One lock for all calls, which a call keeps while it waits for the device: the worst that a
//! driver may do. With `REEF_FAKE_LOCK` alone.

use super::settings::setting;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

static LOCK: Mutex<()> = Mutex::new(());
static IS_ON: LazyLock<bool> = LazyLock::new(|| setting("REEF_FAKE_LOCK", 0) != 0);

/// Enters a call, which ends with the guard.
pub(crate) fn enter() -> Option<MutexGuard<'static, ()>> {
    IS_ON.then(|| LOCK.lock().unwrap_or_else(PoisonError::into_inner))
}
