//! Allocated bytes, for the files that contain them.

use super::active::active;
use crate::driver::state::is_profiled;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard};

static USED: AtomicU64 = AtomicU64::new(0);
/// Bytes of live allocations by address.
static LIVE: LazyLock<Mutex<HashMap<usize, u64>>> = LazyLock::new(Mutex::default);

fn live() -> MutexGuard<'static, HashMap<usize, u64>> {
    LIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn is_wanted() -> bool {
    is_profiled() && active().is_some_and(|active| active.options.needs_memory())
}

pub(super) fn used() -> u64 {
    USED.load(Relaxed)
}

/// Notes an allocation whose call has answered with this code.
pub(crate) fn allocated(code: u32, to: *const usize, bytes: usize) -> u32 {
    if code == 0 && is_wanted() {
        // SAFETY: null, or where the driver has just written.
        if let Some(at) = unsafe { to.as_ref() } {
            hold(*at, bytes as u64);
        }
    }
    code
}

/// Notes bytes at an address. An earlier allocation there has ended unseen.
fn hold(at: usize, bytes: u64) {
    let mut live = live();
    let before = live.insert(at, bytes).unwrap_or(0);
    USED.fetch_add(bytes, Relaxed);
    USED.fetch_sub(before, Relaxed);
}

/// Notes an allocation of rows, whose length the driver has chosen.
pub(crate) fn allocated_rows(
    code: u32,
    to: *const usize,
    pitch: *const usize,
    height: usize,
) -> u32 {
    if code != 0 {
        return code;
    }
    // SAFETY: null, or where the driver has just written.
    let pitch = unsafe { pitch.as_ref() }.copied().unwrap_or(0);
    allocated(code, to, pitch.saturating_mul(height))
}

/// Ends an allocation by `call`. It is removed before, because another allocation may get its
/// address afterwards.
pub(crate) fn freed(at: usize, call: impl FnOnce() -> u32) -> u32 {
    let bytes = if is_wanted() { live().remove(&at) } else { None };
    let code = call();
    match (code, bytes) {
        (0, Some(bytes)) => {
            USED.fetch_sub(bytes, Relaxed);
        }
        (_, Some(bytes)) => {
            live().insert(at, bytes);
        }
        (_, None) => {}
    }
    code
}
