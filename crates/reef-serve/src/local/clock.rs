//! Monotonic clock, shared by all processes of a machine.

use rustix::time::{ClockId, clock_gettime};

/// Returns the monotonic time in nanoseconds, without a system call.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
