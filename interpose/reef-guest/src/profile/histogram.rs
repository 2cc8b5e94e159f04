//! Histogram of times: four steps for each doubling, from 64 ns to 15 s.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Power of two at which the lowest step ends, in nanoseconds.
const LOWEST: u32 = 6;
/// Steps for each doubling, as a power of two.
const FINE: u32 = 2;
const STEPS: usize = 112;

/// Counts of times. Written by one thread alone.
#[derive(Debug)]
pub(super) struct Counts([AtomicU32; STEPS]);

impl Counts {
    pub(super) fn note(&self, nanos: u64) {
        let count = &self.0[step(nanos)];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    pub(super) fn add_to(&self, all: &mut Histogram) {
        all.0.iter_mut().zip(&self.0).for_each(|(all, of)| *all += u64::from(of.load(Relaxed)));
    }
}

/// Counts of times of several threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram([u64; STEPS]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; STEPS])
    }
}

fn step(nanos: u64) -> usize {
    let power = nanos.max(1).ilog2();
    if power < LOWEST {
        return 0;
    }
    let within = (nanos >> (power - FINE)) as usize & ((1 << FINE) - 1);
    (1 + ((power - LOWEST) << FINE) as usize + within).min(STEPS - 1)
}

/// Returns the end of a step.
fn end(step: usize) -> u64 {
    let (power, within) = (step as u32 >> FINE, step as u64 & ((1 << FINE) - 1));
    ((1 << FINE) + within) << (LOWEST - FINE + power)
}

impl Histogram {
    /// Returns the time below which this part of all times lies: the end of its step, which is up
    /// to a quarter too long. Zero if there are no times.
    pub fn quantile(&self, part: f64) -> u64 {
        let all: u64 = self.0.iter().sum();
        let wanted = (part * all as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let found = self.0.iter().position(|count| {
            below += count;
            below >= wanted
        });
        found.map_or(0, end)
    }

    /// Returns the counts in fewer steps. `ends` are their upper bounds; the last step has none.
    pub fn within<const N: usize>(&self, ends: &[u64]) -> [u64; N] {
        let mut counts = [0; N];
        for (step, count) in self.0.iter().enumerate() {
            let at = if step + 1 == STEPS {
                ends.len()
            } else {
                ends.partition_point(|of| *of < end(step))
            };
            counts[at.min(N - 1)] += count;
        }
        counts
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_of_a_time_ends_within_a_quarter_after_it() {
        for nanos in (64..4096).chain([1 << 20, (1 << 30) - 1, 14_000_000_000]) {
            let end = end(step(nanos));
            assert!(end > nanos && end <= nanos + nanos / 4 + 1, "{nanos}: {end}");
        }
        assert_eq!((end(step(0)), step(u64::MAX)), (64, STEPS - 1));
    }

    #[test]
    fn quantiles_are_those_of_all_times() {
        let mut all = Histogram::default();
        assert_eq!(all.quantile(0.5), 0);
        for nanos in [100, 100, 100, 10_000] {
            all.0[step(nanos)] += 1;
        }
        assert_eq!((all.quantile(0.5), all.quantile(0.99)), (112, 10_240));
        all.0[STEPS - 1] += 7;
        assert_eq!(all.within(&[1 << 10, 1 << 12, 1 << 14]), [3, 0, 1, 7]);
    }
}
