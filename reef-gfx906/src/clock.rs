//! Device time.

use rustix::time::{ClockId, clock_gettime};

/// What a wave reads as time, in ticks of 10 ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The host's monotonic clock.
    Host,
    /// As many instructions as the device has run, so that a run can be repeated.
    Steps(u64),
}

impl Clock {
    pub(crate) fn now(self) -> u64 {
        match self {
            Self::Host => host_nanos() / 10,
            Self::Steps(steps) => steps,
        }
    }
}

/// The host's monotonic clock.
pub(crate) fn host_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
