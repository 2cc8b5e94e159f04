//! Exported memory that this process has released: a file, or another process, may have it still.
//!
//! The driver doesn't say when the last of them is gone. So it stays charged until the device has
//! fewer bytes in use than all jobs are charged with: only memory that is gone can be the
//! difference.

use super::device::Limited;
use crate::driver::calls;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::Duration;

/// Number of queries of the device, and the time between two: allocations that are charged and not
/// made yet look like memory that is gone, and end within that time.
const QUERIES: u32 = 3;
const INTERVAL: Duration = Duration::from_millis(5);

/// Released memory.
#[derive(Clone, Copy, Debug)]
struct Released {
    device: &'static Limited,
    bytes: u64,
}

static RELEASED: LazyLock<Mutex<Vec<Released>>> = LazyLock::new(Mutex::default);
/// Number of entries: without any, nothing is asked.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn with(change: impl FnOnce(&mut Vec<Released>)) {
    let mut released: MutexGuard<'_, _> =
        RELEASED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    change(&mut released);
    COUNT.store(released.len(), Relaxed);
}

/// Notes memory that was released, and stays charged.
pub(crate) fn add(device: &'static Limited, bytes: u64) {
    if bytes > 0 {
        with(|released| released.push(Released { device, bytes }));
    }
}

/// Gives back what is gone of a device's released memory, if that is the current context's device.
pub(crate) fn settle(device: &'static Limited) {
    if COUNT.load(Relaxed) == 0 || calls::device() != Some(device.ordinal) {
        return;
    }
    let mut gone = u64::MAX;
    for query in 0..QUERIES {
        if query > 0 {
            std::thread::sleep(INTERVAL);
        }
        let Some(used) = used() else { return };
        gone = gone.min(device.account().used_by_all().saturating_sub(used));
        if gone == 0 {
            return;
        }
    }
    with(|released| give_back(released, device, gone));
}

/// Gives back at most these bytes of a device, the oldest ones first.
fn give_back(released: &mut Vec<Released>, device: &'static Limited, mut gone: u64) {
    released.retain_mut(|of| {
        if of.device.ordinal == device.ordinal {
            let bytes = of.bytes.min(gone);
            gone -= bytes;
            of.bytes -= bytes;
            device.give_back(bytes);
        }
        of.bytes > 0
    });
}

/// Returns the bytes of the current context's device that are in use, by whichever process.
fn used() -> Option<u64> {
    let (mut free, mut total) = (0, 0);
    let is_known = calls::memory_info(&mut free, &mut total) == Some(0);
    is_known.then(|| (total as u64).saturating_sub(free as u64))
}
