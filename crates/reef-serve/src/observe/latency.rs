//! Latencies of answered requests by class, in steps of at most a quarter.
//!
//! Histograms for Prometheus cannot be read back, and their steps are of a factor of two.

use crate::class::Class;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of steps: the last one begins at 58 seconds.
const STEPS: usize = 100;

/// Counts of latencies for each of [`Class::ALL`]. Any thread adds and reads.
#[derive(Debug)]
pub(crate) struct Latencies([[AtomicU64; STEPS]; 2]);

impl Default for Latencies {
    fn default() -> Self {
        Self([0; 2].map(|_| [0; STEPS].map(AtomicU64::new)))
    }
}

impl Latencies {
    /// Counts the latency of a request that was answered.
    pub(crate) fn note(&self, class: Class, time: Duration) {
        self.0[class as usize][step(time)].fetch_add(1, Relaxed);
    }

    pub(crate) fn counts(&self) -> [Counts; 2] {
        self.0.each_ref().map(|steps| Counts(steps.each_ref().map(|count| count.load(Relaxed))))
    }
}

/// Counts of one class at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counts([u64; STEPS]);

impl Counts {
    /// Returns the counts since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut grown = self.0;
        grown.iter_mut().zip(before.0).for_each(|(now, before)| *now = now.saturating_sub(before));
        Self(grown)
    }

    /// Returns an upper bound of a percentile, at most a quarter above it. `None` without requests.
    pub(crate) fn percentile(&self, part: f64) -> Option<Duration> {
        let all: u64 = self.0.iter().sum();
        let rank = ((all as f64 * part).ceil() as u64).max(1);
        let mut sum = 0;
        let at = self.0.iter().position(|count| {
            sum += count;
            sum >= rank
        });
        at.map(end)
    }
}

/// Returns the step of a time: four for each power of two microseconds.
fn step(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    if micros < 4 {
        return micros as usize;
    }
    let power = micros.ilog2() as usize;
    let quarter = (micros >> (power - 2)) as usize & 3;
    (4 * (power - 1) + quarter).min(STEPS - 1)
}

/// Returns the end of a step.
fn end(step: usize) -> Duration {
    let micros = match step {
        0..4 => step as u64 + 1,
        step => (step as u64 % 4 + 5) << (step / 4 - 1),
    };
    Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_holds_its_times_and_is_a_quarter_wide() {
        for micros in (0..5000).chain([123_456, 33_554_431, 50_000_000]) {
            let time = Duration::from_micros(micros);
            let at = step(time);
            assert!(time < end(at), "{micros}: {at}");
            assert!(at == 0 || end(at - 1) <= time, "{micros}: {at}");
            assert!(
                micros < 4 || end(at).as_micros() <= u128::from(micros) * 5 / 4 + 1,
                "{micros}"
            );
        }
        assert_eq!(step(Duration::MAX), STEPS - 1);
    }

    #[test]
    fn percentile_is_of_one_class_and_one_interval() {
        let latencies = Latencies::default();
        let ms = Duration::from_millis;
        latencies.note(Class::RealTime, ms(500));
        latencies.note(Class::BestEffort, ms(900));
        let before = latencies.counts()[Class::RealTime as usize].clone();
        (0..98).for_each(|_| latencies.note(Class::RealTime, ms(10)));
        (0..2).for_each(|_| latencies.note(Class::RealTime, ms(100)));
        let now = latencies.counts()[Class::RealTime as usize].since(&before);
        let [p50, p99] = [0.5, 0.99].map(|part| now.percentile(part).unwrap());
        assert!(p50 >= ms(10) && p50 <= ms(13), "{p50:?}");
        assert!(p99 >= ms(100) && p99 <= ms(126), "{p99:?}");
        assert_eq!(before.since(&before).percentile(0.99), None);
    }
}
