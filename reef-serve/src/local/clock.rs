//! The clock that all processes of a machine share.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock. Doesn't call the kernel.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
