//! Rate of a device's clock, found among known rates from stamps and the host's times of asking for
//! and seeing them.
//!
//! The device made a stamp after the host had asked for it and before the host saw it. So between
//! two stamps the host's clock advanced by no less than `asked₂ − seen₁` and no more than
//! `seen₂ − asked₁`, however late either was. A rate fits if the ticks between them take such a
//! time.

use std::time::Duration;

/// A stamp of the device, and the host's clock around it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighting {
    pub(crate) asked: Duration,
    pub(crate) stamp: u64,
    pub(crate) seen: Duration,
}

/// Tells rates apart.
#[derive(Debug)]
pub(crate) struct TickRateProbe {
    rates: &'static [u64],
    first: Sighting,
}

impl TickRateProbe {
    pub(crate) fn new(rates: &'static [u64], first: Sighting) -> Self {
        Self { rates, first }
    }

    /// The only rate that fits; `None` if several do, which a longer time tells apart. If none
    /// fits, as on a device whose stamps don't follow time, the nearest.
    pub(crate) fn decide(&self, last: Sighting) -> Option<u64> {
        let mut fits = self.rates.iter().filter(|rate| self.fits(**rate, last));
        match (fits.next(), fits.next()) {
            (Some(rate), None) => Some(*rate),
            (None, _) => Some(self.nearest(last)),
            (Some(_), Some(_)) => None,
        }
    }

    /// The rate nearest to what was seen.
    pub(crate) fn nearest(&self, last: Sighting) -> u64 {
        let (least, most) = self.passed(last);
        let seconds = (least + most).as_secs_f64() / 2.0;
        let seen = (self.ticks(last) as f64 / seconds).max(1.0);
        let distance = |rate: &u64| (seen.ln() - (*rate as f64).ln()).abs();
        let nearest = self.rates.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        *nearest.expect("a vendor names the rates that there are")
    }

    fn fits(&self, rate: u64, last: Sighting) -> bool {
        let (least, most) = self.passed(last);
        let nanos = u128::from(self.ticks(last)) * 1_000_000_000 / u128::from(rate);
        // Each stamp is a whole number of ticks.
        let tick = u128::from(1_000_000_000 / rate + 1);
        nanos + tick >= least.as_nanos() && nanos <= most.as_nanos() + tick
    }

    fn ticks(&self, last: Sighting) -> u64 {
        last.stamp.wrapping_sub(self.first.stamp)
    }

    /// The least and the most time between the two stamps.
    fn passed(&self, last: Sighting) -> (Duration, Duration) {
        let least = last.asked.saturating_sub(self.first.seen);
        (least, last.seen.saturating_sub(self.first.asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATES: [u64; 3] = [25_000_000, 27_000_000, 100_000_000];

    /// Sighting of a stamp made at `at` nanoseconds.
    fn sighting(rate: u64, at: u64, before: u64, after: u64) -> Sighting {
        let stamp = (u128::from(at) * u128::from(rate) / 1_000_000_000) as u64;
        let nanos = Duration::from_nanos;
        Sighting { asked: nanos(at - before), stamp, seen: nanos(at + after) }
    }

    #[test]
    fn rates_are_told_apart_when_enough_time_has_passed() {
        for rate in RATES {
            let probe = TickRateProbe::new(&RATES, sighting(rate, 1_000_000, 20_000, 10_000));
            let soon = probe.decide(sighting(rate, 1_060_000, 20_000, 10_000));
            assert!(soon.is_none() || soon == Some(rate));
            assert_eq!(probe.decide(sighting(rate, 3_000_000, 20_000, 10_000)), Some(rate));
        }
    }

    #[test]
    fn time_that_is_none_has_the_nearest_rate() {
        let stamp = |stamp, at| {
            let at = Duration::from_millis(at);
            Sighting { asked: at, stamp, seen: at }
        };
        let probe = TickRateProbe::new(&RATES, stamp(7, 1));
        assert_eq!(probe.decide(stamp(7, 2)), Some(25_000_000), "it stands still");
        assert_eq!(probe.decide(stamp(2_000_000_000, 2)), Some(100_000_000), "it races");
    }

    proptest! {
        /// However late the device is, and however late the host looks.
        #[test]
        fn a_decision_is_right(
            rate in prop::sample::select(&RATES[..]),
            apart in 1u64..1_000_000_000,
            late in prop::array::uniform4(0u64..50_000_000),
        ) {
            let first = sighting(rate, 60_000_000, late[0], late[1]);
            let last = sighting(rate, 60_000_000 + apart, late[2].min(apart + 60_000_000), late[3]);
            if let Some(decided) = TickRateProbe::new(&RATES, first).decide(last) {
                prop_assert_eq!(decided, rate);
            }
        }
    }
}
