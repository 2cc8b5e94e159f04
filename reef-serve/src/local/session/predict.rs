//! When the next inference of a client will have ended, going by those before.
//!
//! A client that sleeps takes some 50 µs to wake up. So it is woken that long before the answer,
//! and looks for it then ([`ROUSED`] at most). What that costs is what answers come later than
//! expected: the estimate is therefore a low one, and where they come later by much, in the mean,
//! no client is woken before its answer.

use crate::local::channel::ROUSED;
use std::time::Duration;

/// How long before the answer a client is woken: about as long as that takes.
const AHEAD: Duration = Duration::from_micros(60);

/// Inferences that take longer gain nothing to speak of.
const LONGEST: Duration = Duration::from_millis(20);

/// What to expect.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// What the faster inferences take; 0: there has been none.
    time: Duration,
    /// How much longer all take, in the mean of the last few.
    late: Duration,
}

impl Expected {
    /// Notes how long one took.
    pub(super) fn note(&mut self, took: Duration) {
        if self.time.is_zero() {
            self.time = took;
        }
        let late = took.saturating_sub(self.time);
        self.late = (self.late * 7 + late) / 8;
        self.time = if took < self.time { (self.time + took) / 2 } else { self.time + late / 16 };
    }

    /// After how long on the device the client is to be woken; `None`: not before the answer.
    pub(super) fn rouse_after(&self) -> Option<Duration> {
        if self.time > LONGEST || self.late > ROUSED {
            return None;
        }
        self.time.checked_sub(AHEAD).filter(|after| !after.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    fn after(times: impl IntoIterator<Item = u64>) -> Option<Duration> {
        let mut expected = Expected::default();
        times.into_iter().for_each(|time| expected.note(US(time)));
        expected.rouse_after()
    }

    #[test]
    fn a_client_is_woken_before_the_end_of_what_always_takes_as_long() {
        assert_eq!(after([]), None);
        assert_eq!(after([460; 50]), Some(US(400)));
        assert_eq!(after([50; 50]), None, "it still looks");
        assert_eq!(after([25_000; 50]), None);
    }

    #[test]
    fn what_is_expected_is_what_the_faster_ones_take() {
        let mixed = after((0..400).map(|n| 460 + n * 37 % 80)).unwrap();
        assert!((US(390)..US(440)).contains(&mixed), "{mixed:?}");
    }

    #[test]
    fn no_client_is_woken_where_the_end_cannot_be_told() {
        assert_eq!(after((0..400).map(|n| 460 + n % 2 * 3_000)), None);
        let again = after((0..400).map(|n| 460 + n % 2 * 3_000).chain([460; 100]));
        assert_eq!(again, Some(US(400)), "it can be again");
    }
}
