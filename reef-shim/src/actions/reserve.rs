//! Reservation of memory before the driver is asked for it.

use crate::driver::calls;
use crate::limit::device::Limited;
use crate::limit::pending;
use crate::limit::pools::stores;
use crate::limit::refusal::OUT_OF_MEMORY;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs something of ours about limits. A panic is no way round one: the allocation is refused.
pub(super) fn refuse_on_panic(ours: impl FnOnce() -> u32) -> u32 {
    catch_unwind(AssertUnwindSafe(ours)).unwrap_or(OUT_OF_MEMORY)
}

/// Reserves, calls, and notes what was made or gives back.
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

/// Reserves, after what has ended in streams is counted and pools have given back what they don't
/// use, if need be.
pub(super) fn make_room(device: &'static Limited, bytes: u64) -> bool {
    device.try_reserve(bytes) || {
        calls::with_relaxed_capture(|| {
            pending::settle();
            stores().trim_all(device);
        });
        device.reserve(bytes)
    }
}
