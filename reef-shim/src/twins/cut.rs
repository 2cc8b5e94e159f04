//! Cut of a launch: slices of about 200 µs, or longer ones whose blocks can leave.

use reef_ptx::twin::{Launched, Slice, slices};
use std::time::Duration;

/// Duration that a slice should have: about the time for which real-time work waits.
const SLICE: Duration = Duration::from_micros(200);
/// Maximum number of slices of a launch. All fit into the driver's queue with their gates, so the
/// launch doesn't wait for the device. One that can be stopped has five entries there.
const MAX_SLICES: u32 = 240;
const MAX_STOPPED_SLICES: u32 = 120;
/// Waves of a slice that can be stopped. A wave leaves in about 2 µs, so all of them leave in 80.
const WAVES: u32 = 40;
/// Longest slice that can be stopped: a resume of it dispatches its blocks again.
const MAX_STOPPED: Duration = Duration::from_millis(10);

/// Launch with what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) grid: [u32; 3],
    /// Blocks that the device runs at a time.
    pub(super) wave: u64,
    /// Duration of the plain kernel.
    pub(super) plain: Duration,
}

impl Measured {
    fn blocks(&self) -> u64 {
        self.grid.iter().fold(1_u64, |all, side| all.saturating_mul(u64::from(*side)))
    }

    /// Returns how long a slice should be whose blocks can leave.
    fn stopped_slice(&self) -> Duration {
        let waves = self.blocks().div_ceil(self.wave.max(1)).max(1) as f64;
        let slice = self.plain.as_secs_f64() / waves * f64::from(WAVES);
        Duration::from_secs_f64(slice).min(MAX_STOPPED)
    }

    /// Returns whether stops are worth while: blocks take long enough for that each looks whether
    /// it is to leave, and that all leave soon.
    pub(super) fn is_worth_stops(&self) -> bool {
        self.blocks() > self.wave && self.stopped_slice() >= 2 * SLICE
    }

    /// Cuts the launch into slices that are launched and not stopped.
    ///
    /// # Errors
    ///
    /// The reason for which it has none.
    pub(super) fn slices(&self) -> Result<Vec<Slice>, String> {
        self.cut(SLICE, MAX_SLICES)
    }

    /// Cuts the launch into slices that can be stopped, of `most` blocks or fewer. One slice may be
    /// the whole of it, and is if `is_whole`.
    ///
    /// # Errors
    ///
    /// The reason for which it has none.
    pub(super) fn stopped_slices(&self, most: u64, is_whole: bool) -> Result<Vec<Slice>, String> {
        let slice = self.stopped_slice();
        let all = if is_whole || self.plain <= slice {
            vec![Slice { offset: [0; 3], blocks: self.grid }]
        } else {
            self.cut(slice, MAX_STOPPED_SLICES)?
        };
        let of = |slice: &Slice| slice.blocks.iter().map(|side| u64::from(*side)).product::<u64>();
        match all.iter().all(|slice| of(slice) <= most) {
            true => Ok(all),
            false => Err("its slices have too many blocks".into()),
        }
    }

    fn cut(&self, slice: Duration, most: u32) -> Result<Vec<Slice>, String> {
        let Self { grid, wave, plain } = *self;
        Ok(slices(&Launched { grid, wave, duration: plain, slice, most })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(grid: [u32; 3], wave: u64, millis: u64) -> Measured {
        Measured { grid, wave, plain: Duration::from_millis(millis) }
    }

    #[test]
    fn blocks_of_a_microsecond_are_not_worth_stops() {
        assert!(!measured([1 << 20, 1, 1], 1056, 1).is_worth_stops());
        assert!(measured([1_320_000, 1, 1], 132, 1000).is_worth_stops());
        assert!(!measured([132, 1, 1], 132, 1000).is_worth_stops(), "all run at a time");
    }

    #[test]
    fn slice_that_can_be_stopped_has_forty_waves() {
        // Blocks of 100 µs.
        let all = measured([264 * 1000, 1, 1], 264, 100).stopped_slices(1 << 16, false).unwrap();
        assert!((20..=30).contains(&all.len()), "{}", all.len());
        let short = measured([264 * 10, 1, 1], 264, 1).stopped_slices(1 << 16, false).unwrap();
        assert_eq!(short, [Slice { offset: [0; 3], blocks: [2640, 1, 1] }]);
    }

    #[test]
    fn too_many_blocks_are_not_recorded() {
        let long = measured([264 * 10_000, 1, 1], 264, 1000);
        let all = long.stopped_slices(1 << 16, false).unwrap();
        assert!(all.len() <= 120, "{}", all.len());
        assert!(long.stopped_slices(1 << 16, true).is_err());
    }
}
