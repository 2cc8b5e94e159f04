//! Device time.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of a tick: gfx906 counts real time at 25 MHz (as MI100 and MI200, whose manuals of
/// the instruction set say so; Vega 10 at 27, MI300 at 100).
const TICK: u64 = 40;

/// The rate of [`Clock`] in kHz.
pub(crate) const CLOCK_KHZ: u32 = (1_000_000 / TICK) as u32;

/// Clock that a wave reads as time (`s_memrealtime`).
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
            Self::Host => ticks(host_nanos()),
            Self::Steps(steps) => steps,
        }
    }
}

/// As many ticks of the device.
pub(crate) fn ticks(nanos: u64) -> u64 {
    nanos / TICK
}

/// The host's monotonic clock.
pub(crate) fn host_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
