//! Reservation of memory before the driver allocates it.

use crate::driver::calls::{self, Stream};
use crate::guest::find;
use crate::limit::device::Limited;
use crate::limit::exported;
use crate::limit::pending::{self, POLL_INTERVAL, Points};
use crate::limit::pools::holes::StreamKey;
use crate::limit::pools::stores::{Stores, stores, stream_key};
use reef_cuda_abi::codes::OUT_OF_MEMORY;
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

/// Wait with a timeout. Time in which the program is held doesn't count: none of its work can end
/// then. Starvation reliefs count, 4 ms in 0.9 s, so a wait ends even if the hold doesn't.
#[derive(Debug)]
struct Wait {
    left: Duration,
    polled: Instant,
}

impl Wait {
    fn new(timeout: Duration, now: Instant) -> Self {
        Self { left: timeout, polled: now }
    }

    /// Counts the time since the last poll. Returns whether none is left.
    fn is_over(&mut self, now: Instant, is_held: bool) -> bool {
        let passed = now.saturating_duration_since(self.polled);
        self.polled = now;
        if !is_held {
            self.left = self.left.saturating_sub(passed);
        }
        self.left.is_zero()
    }
}

/// Returns whether the gate of the current context is closed.
fn is_held() -> bool {
    let branch = find::find_context(calls::context());
    branch.is_some_and(|branch| branch.context.device.page.holders.is_closed())
}

/// Tries to reserve whenever work has ended that may give memory back, until it succeeds. Ends
/// after `timeout`, without the time in which the program is held, or when no such work is left.
/// Returns whether it has succeeded.
pub(crate) fn await_room(
    device: &'static Limited,
    timeout: Duration,
    mut try_reserve: impl FnMut() -> bool,
) -> bool {
    let mut wait = Wait::new(timeout, Instant::now());
    let mut is_late = || wait.is_over(Instant::now(), is_held());
    calls::with_relaxed_capture(|| {
        let mut work = Work::record();
        loop {
            work.settle();
            find_room(device);
            if try_reserve() {
                return true;
            }
            if work.is_over() || is_late() {
                return false;
            }
            while !work.settle() && !is_late() {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    })
}

/// Work in streams that may give memory back when it ends.
struct Work {
    keys: Vec<StreamKey>,
    points: Points,
    /// Number of the last free before the points.
    number: u64,
}

impl Work {
    /// Records the current points of all streams that may give memory back.
    fn record() -> Self {
        let (number, mut known) = stores().streams();
        known.retain(|(key, stream)| has_handle(*key, *stream));
        let streams: Vec<_> = known.iter().map(|(key, stream)| (*stream, key.0)).collect();
        let keys = known.into_iter().map(|(key, _)| key).collect();
        Self { keys, points: Points::record(&streams), number }
    }

    /// Counts what has ended. Returns whether there was anything.
    fn settle(&mut self) -> bool {
        let reached = self.points.poll();
        for at in &reached {
            stores().reached(self.keys[*at], self.number);
        }
        pending::settle() || !reached.is_empty()
    }

    /// Returns whether all of it has ended.
    fn is_over(&self) -> bool {
        self.points.are_reached() && !pending::are_any()
    }
}

/// Returns whether a stream's handle means this stream here: that of a thread is its own. While it
/// is captured it can't be asked for its number, and has no points either.
fn has_handle(key: StreamKey, stream: Stream) -> bool {
    !stream.is_own() || (!calls::is_capturing(stream) && stream_key(stream) == key)
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
    let reached = Points::record(&streams).poll();
    let mut stores: MutexGuard<'_, Stores> = stores();
    for at in reached {
        let (key, _, number) = known[at];
        stores.reached(key, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_a_program_is_held_is_not_waited() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut wait = Wait::new(second, begin);
        assert!(!wait.is_over(begin + 100 * second, true));
        assert!(!wait.is_over(begin + 100 * second + second / 2, false));
        assert!(!wait.is_over(begin + 200 * second, true));
        assert!(wait.is_over(begin + 200 * second + second / 2, false));
    }
}
