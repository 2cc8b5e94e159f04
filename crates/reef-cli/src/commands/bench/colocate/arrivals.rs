//! When real-time requests come.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::time::Duration;

/// Arrivals of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arrivals {
    /// Each at a random time, `rate` per second on average, even if earlier ones have not finished.
    Random { rate: f64, seed: u64 },
    /// Each when the one before has finished.
    Closed,
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random { rate, .. } => write!(f, "{rate}/s"),
            Self::Closed => f.write_str("closed loop"),
        }
    }
}

/// Times within `time` at which requests arrive: a Poisson process, the same for the same seed.
pub(crate) fn poisson(rate: f64, seed: u64, time: Duration) -> Vec<Duration> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let gaps = std::iter::repeat_with(|| -(1.0 - rng.random::<f64>()).ln() / rate);
    let arrivals = gaps.scan(0.0, |now, gap| {
        *now += gap;
        Some(*now)
    });
    let within = arrivals.take_while(|&at| at < time.as_secs_f64());
    within.map(Duration::from_secs_f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_as_many_as_asked_and_the_same_again() {
        let time = Duration::from_secs(100);
        let arrivals = poisson(100.0, 7, time);
        assert!((9_600..10_400).contains(&arrivals.len()), "{}", arrivals.len());
        assert!(arrivals.is_sorted() && arrivals.last().is_some_and(|&last| last < time));
        assert_eq!(arrivals, poisson(100.0, 7, time));
        assert_ne!(arrivals, poisson(100.0, 8, time));
    }

    /// The gaps of a Poisson process deviate by as much as they are long.
    #[test]
    fn gaps_are_exponential() {
        let arrivals = poisson(100.0, 1, Duration::from_secs(200));
        let gaps: Vec<_> = arrivals.windows(2).map(|w| (w[1] - w[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{variance} {mean}");
    }
}
