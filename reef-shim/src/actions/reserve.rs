//! Reservation of memory before the driver allocates it.

use crate::driver::calls;
use crate::limit::device::Limited;
use crate::limit::pending;
use crate::limit::pools::stores;
use crate::limit::refusal::OUT_OF_MEMORY;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs our work for a limit. After a panic the allocation is refused, so that no limit is
/// bypassed.
pub(crate) fn refuse_on_panic(ours: impl FnOnce() -> u32) -> u32 {
    catch_unwind(AssertUnwindSafe(ours)).unwrap_or(OUT_OF_MEMORY)
}

/// Reserves bytes and makes the call. Then notes the allocation, or gives the bytes back if it
/// failed.
pub(super) fn with_reservation(
    device: &'static Limited,
    bytes: u64,
    real: impl FnOnce() -> u32,
    note: impl FnOnce(),
) -> u32 {
    if !make_room(device, bytes) {
        return OUT_OF_MEMORY;
    }
    let code = real();
    if code == 0 {
        note()
    } else {
        device.give_back(bytes)
    }
    code
}

/// Reserves bytes. If there is no room, first counts allocations that have ended in streams, and
/// has pools free unused memory.
pub(crate) fn make_room(device: &'static Limited, bytes: u64) -> bool {
    device.try_reserve(bytes) || {
        calls::with_relaxed_capture(|| {
            pending::settle();
            stores().trim_all(device);
        });
        device.reserve(bytes)
    }
}
