//! Arrival times of a client's requests.

use crate::fleet::Arrivals;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Never.
pub(crate) const NEVER: u64 = u64::MAX;

/// The arrivals of one client, in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Closed { pause: u64 },
    Poisson { mean: f64, at: f64 },
    Periodic { interval: f64, offset: f64, count: u64 },
    Bursts { mean: f64, at: f64, size: u32, left: u32 },
    Trace { times: Arc<[u64]>, next: usize, step: usize },
}

impl Source {
    /// Arrivals of the client `number` of `count` that are alike.
    pub(crate) fn new(
        arrivals: &Arrivals,
        times: Option<&Arc<[u64]>>,
        number: u32,
        count: u32,
    ) -> Self {
        match arrivals {
            Arrivals::Closed { pause_us } => Self::Closed { pause: (pause_us * 1e3) as u64 },
            Arrivals::Poisson { per_second } => Self::Poisson { mean: 1e9 / per_second, at: 0.0 },
            Arrivals::Periodic { per_second, offset_ms } => {
                Self::Periodic { interval: 1e9 / per_second, offset: offset_ms * 1e6, count: 0 }
            }
            Arrivals::Bursts { per_second, size } => {
                Self::Bursts { mean: 1e9 / per_second, at: 0.0, size: *size, left: 0 }
            }
            Arrivals::Trace(_) => {
                let times = times.cloned().unwrap_or_else(|| Arc::from([]));
                Self::Trace { times, next: number as usize, step: count as usize }
            }
        }
    }

    /// The next arrival. Of a closed loop it is the first one: later ones come from
    /// [`Self::answered`].
    pub(crate) fn next(&mut self, rng: &mut ChaCha8Rng) -> u64 {
        match self {
            Self::Closed { .. } => 0,
            Self::Poisson { mean, at } => {
                *at += exponential(rng, *mean);
                *at as u64
            }
            Self::Periodic { interval, offset, count } => {
                *count += 1;
                (*offset + *interval * (*count - 1) as f64) as u64
            }
            Self::Bursts { mean, at, size, left } => {
                if *left == 0 {
                    *at += exponential(rng, *mean);
                    *left = *size;
                }
                *left -= 1;
                *at as u64
            }
            Self::Trace { times, next, step } => {
                let time = times.get(*next).copied().unwrap_or(NEVER);
                *next = next.saturating_add(*step);
                time
            }
        }
    }

    /// Returns the next request of a client in a closed loop that got its answer at `now`.
    pub(crate) fn answered(&self, now: u64) -> Option<u64> {
        match self {
            Self::Closed { pause } => Some(now.saturating_add(*pause)),
            _ => None,
        }
    }
}

/// An exponential random number. Not by the platform's logarithm: results are the same on all
/// platforms.
pub(crate) fn exponential(rng: &mut ChaCha8Rng, mean: f64) -> f64 {
    let uniform: f64 = rng.random();
    -libm::log(1.0 - uniform) * mean
}

/// A normal random number, by Box and Muller.
pub(crate) fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let angle: f64 = rng.random();
    let radius = libm::sqrt(2.0 * exponential(rng, 1.0));
    radius * libm::cos(std::f64::consts::TAU * angle)
}
