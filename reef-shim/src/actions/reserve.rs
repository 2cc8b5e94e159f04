//! Reservation of memory before the driver allocates it.

use crate::driver::calls::{self, Stream};
use crate::limit::device::Limited;
use crate::limit::exported;
use crate::limit::pending::{self, POLL_INTERVAL, Points};
use crate::limit::pools::holes::StreamKey;
use crate::limit::pools::stores::{Stores, stores, stream_key};
use crate::limit::refusal::OUT_OF_MEMORY;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

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
        find_room(device);
        device.reserve(bytes)
    }
}

/// Counts what has ended in streams or elsewhere, and has pools and graphs free unused memory.
pub(crate) fn find_room(device: &'static Limited) {
    calls::with_relaxed_capture(|| {
        pending::settle();
        settle_frees(device);
        stores().trim_all(device);
        exported::settle(device);
    });
}

/// Tries to reserve whenever work has ended that may give memory back, until it succeeds. Ends
/// after `timeout`, or when no such work is left. Returns whether it has succeeded.
pub(crate) fn await_room(
    device: &'static Limited,
    timeout: Duration,
    mut try_reserve: impl FnMut() -> bool,
) -> bool {
    let begin = Instant::now();
    calls::with_relaxed_capture(|| {
        loop {
            let mut points = Points::record(&streams());
            points.poll();
            let is_idle = points.is_over() && !pending::are_any();
            find_room(device);
            if try_reserve() {
                return true;
            }
            if is_idle || begin.elapsed() >= timeout {
                return false;
            }
            while !(points.poll() | pending::settle()) && begin.elapsed() < timeout {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    })
}

/// Returns the streams whose work may give memory back, with their contexts.
fn streams() -> Vec<(Stream, usize)> {
    let known = stores().streams();
    let usable = known.into_iter().filter(|(key, stream)| has_handle(*key, *stream));
    usable.map(|(key, stream)| (stream, key.0)).collect()
}

/// Returns whether a stream's handle means this stream here: that of a thread is its own.
fn has_handle(key: StreamKey, stream: Stream) -> bool {
    !stream.is_own() || stream_key(stream) == key
}

/// Finds out which frees of a device's pools streams have reached. The lock is not held meanwhile.
pub(crate) fn settle_frees(device: &'static Limited) {
    let freeing = stores().freeing(device);
    let with_handle = |(key, stream, number): (StreamKey, Option<Stream>, u64)| {
        let stream = stream.filter(|stream| has_handle(key, *stream));
        stream.map(|stream| (key, stream, number))
    };
    let known: Vec<_> = freeing.into_iter().filter_map(with_handle).collect();
    let streams: Vec<_> = known.iter().map(|(key, stream, _)| (*stream, key.0)).collect();
    let mut points = Points::record(&streams);
    points.poll();
    let mut stores: MutexGuard<'_, Stores> = stores();
    for ((key, _, number), is_reached) in known.into_iter().zip(points.reached()) {
        if *is_reached {
            stores.reached(key, number);
        }
    }
}
