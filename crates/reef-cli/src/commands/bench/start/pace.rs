//! Length of a row, and pauses between real-time requests.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::{Duration, Instant};

/// When a row has enough.
pub(crate) struct Limits {
    pub(crate) samples: usize,
    pub(crate) time: Duration,
    /// Mean time between requests.
    pub(crate) pause: Duration,
    /// Pauses are waited for on the processor.
    pub(crate) awake: bool,
    pub(crate) seed: u64,
}

impl Limits {
    /// Waits for as long as a pause lasts.
    pub(crate) fn rest(&self, pause: Duration) {
        let begin = Instant::now();
        if !self.awake {
            std::thread::sleep(pause);
        }
        while begin.elapsed() < pause {
            std::hint::spin_loop();
        }
    }

    /// Pauses by themselves random, the same for each row: what runs meanwhile isn't in step.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        let (mut rng, pause) = (ChaCha8Rng::seed_from_u64(self.seed), self.pause);
        std::iter::repeat_with(move || pause.mul_f64(rng.random_range(0.5..1.5)))
    }
}
