//! Random numbers, whose seed a failing test prints.

use std::fmt;
use std::ops::Range;

/// Variable that sets the seed.
const SEED: &str = "REEF_TEST_SEED";

/// Generator of random numbers, and the seed that it began with.
pub(in super::super) struct Random(u64, u64);

impl Random {
    /// Creates a generator with the seed of the environment, or with a new one.
    pub(in super::super) fn from_environment() -> Self {
        let asked = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
        let now = || std::time::UNIX_EPOCH.elapsed().map_or(0, |now| u64::from(now.subsec_nanos()));
        let seed = asked.unwrap_or_else(now);
        Self(seed, seed)
    }

    pub(in super::super) fn of(&mut self, range: Range<u64>) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        range.start + (self.0 >> 33) * (range.end - range.start) / (1 << 31)
    }
}

impl fmt::Display for Random {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{SEED}={}", self.1)
    }
}
