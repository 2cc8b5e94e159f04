//! Spacing of gates: the number of launches between two of them.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Device time between two gates. Real-time work waits at most for this and one kernel.
pub const APART: Duration = Duration::from_micros(100);

/// Maximum launches between two gates, however short they are. A gate costs the launching thread
/// about 1 µs and the device 2 µs (H200, docs/cuda.md), so 16 kernels of 4 µs pay 3 %.
pub const MAX_APART: u32 = 16;

/// Number of launches for each gate, from the recent time of a launch.
///
/// The run-ahead is bounded, so over many launches a thread makes them as fast as the device ends
/// them: the time between launches is the time of a launch on the device, idle time included, which
/// errs towards more gates.
#[derive(Debug)]
pub struct Spacing {
    /// Nanoseconds per launch, averaged.
    launch_ns: AtomicU32,
}

impl Spacing {
    /// Creates a spacing of four launches, until times are known.
    pub const fn new() -> Self {
        Self { launch_ns: AtomicU32::new((APART.as_nanos() / 4) as u32) }
    }

    /// Notes that `launches` were made in this time.
    pub fn note(&self, launches: u32, time: Duration) {
        let per = time.as_nanos() / u128::from(launches.max(1));
        let per = u32::try_from(per).unwrap_or(u32::MAX).min(1 << 28);
        let before = self.launch_ns.load(Relaxed);
        self.launch_ns.store(before - before / 4 + per / 4, Relaxed);
    }

    /// Returns the launches from one gate to the next.
    pub fn launches(&self) -> u32 {
        self.fit(APART).clamp(1, MAX_APART)
    }

    /// Returns about how many launches are made in this time, at least one.
    pub fn launches_in(&self, time: Duration) -> u32 {
        self.fit(time).max(1)
    }

    fn fit(&self, time: Duration) -> u32 {
        let nanos = u32::try_from(time.as_nanos()).unwrap_or(u32::MAX);
        nanos / self.launch_ns.load(Relaxed).max(1)
    }
}

impl Default for Spacing {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_closer_for_longer_kernels() {
        let spacing = Spacing::new();
        assert_eq!(spacing.launches(), 4);
        let after = |each: Duration| {
            (0..40).for_each(|_| spacing.note(64, each * 64));
            spacing.launches()
        };
        assert_eq!(after(Duration::from_micros(4)), MAX_APART);
        assert_eq!(after(Duration::from_micros(20)), 5);
        assert_eq!(after(Duration::from_millis(3)), 1);
        assert_eq!(after(Duration::from_secs(3600)), 1);
        assert_eq!(after(Duration::ZERO), MAX_APART);
    }
}
