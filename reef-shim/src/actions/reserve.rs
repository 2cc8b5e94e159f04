//! Reservation of memory before the driver allocates it.

use crate::driver::calls::{self, Stream};
use crate::limit::device::Limited;
use crate::limit::exported;
use crate::limit::pending;
use crate::limit::pools::holes::StreamKey;
use crate::limit::pools::stores::{Stores, stores, stream_key};
use crate::limit::refusal::OUT_OF_MEMORY;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::MutexGuard;
use std::time::Duration;

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
        find_room(device, Duration::ZERO);
        device.reserve(bytes)
    }
}

/// Counts what has ended in streams or elsewhere, and has pools and graphs free unused memory.
/// Waits at most for `timeout` for streams that have yet to reach frees of pools.
pub(crate) fn find_room(device: &'static Limited, timeout: Duration) {
    calls::with_relaxed_capture(|| {
        pending::settle();
        settle_frees(device, timeout);
        stores().trim_all(device);
        exported::settle(device);
    });
}

/// Finds out which frees of a device's pools streams have reached. The lock is not held meanwhile.
pub(crate) fn settle_frees(device: &'static Limited, timeout: Duration) {
    let freeing = stores().freeing(device);
    let has_handle = |(key, stream, number): (StreamKey, Option<Stream>, u64)| {
        let stream = stream.filter(|stream| !stream.is_own() || stream_key(*stream) == key);
        stream.map(|stream| (key, stream, number))
    };
    let known: Vec<_> = freeing.into_iter().filter_map(has_handle).collect();
    let streams: Vec<_> = known.iter().map(|(key, stream, _)| (*stream, key.0)).collect();
    let reached = pending::wait(&streams, timeout);
    let mut stores: MutexGuard<'_, Stores> = stores();
    for ((key, _, number), is_reached) in known.into_iter().zip(reached) {
        if is_reached {
            stores.reached(key, number);
        }
    }
}
