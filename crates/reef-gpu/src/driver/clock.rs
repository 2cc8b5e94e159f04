//! The host's clock, and where the device's ticks lie on it.
//!
//! The two drift apart, and the host sees a stamp only some time after the device made it. The
//! least difference that was seen is the best guess, and what is seen later may raise it by no more
//! than the drift that clocks can have. It falls by no more than half of the time that passes; only
//! while the device is being opened may it jump. Whatever becomes of the guess, of two events the
//! later one has no earlier place.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum drift between the clocks, in parts per million.
const DRIFT: i128 = 50;

#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// The device's ticks a second; 0: not known yet, and stamps have no place. Written while it is
    /// opened.
    rate: AtomicU64,
    guess: Mutex<Option<Guess>>,
    /// The newest stamp that has a place, and the place. Locked after `guess`.
    placed: Mutex<Option<(i128, i128)>>,
    opening: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Guess {
    /// Host minus device, in nanoseconds.
    offset: i128,
    /// Time at which it was made, on the host's clock and on the device's.
    at: i128,
    stamp: i128,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let (guess, placed) = (Mutex::new(None), Mutex::new(None));
        let (rate, opening) = (AtomicU64::new(0), AtomicBool::new(true));
        Self { start: Instant::now(), rate, guess, placed, opening }
    }

    /// Sets the rate of the ticks that stamps are in, from now on.
    pub(crate) fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Release);
    }

    /// A stamp in nanoseconds.
    fn nanos(&self, stamp: u64) -> Option<i128> {
        match self.rate.load(Ordering::Acquire) {
            0 => None,
            rate => Some(i128::from(stamp) * 1_000_000_000 / i128::from(rate)),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// The device is open: from now on places keep their order.
    pub(crate) fn open(&self) {
        self.opening.store(false, Ordering::Release);
    }

    /// A stamp of the device has just been seen.
    pub(crate) fn observe(&self, stamp: u64) {
        let now = self.now().as_nanos() as i128;
        if let Some(stamp) = self.nanos(stamp) {
            self.observe_at(now, stamp);
        }
    }

    fn observe_at(&self, now: i128, stamp: i128) {
        let mut guess = self.guess.lock();
        let seen = now - stamp;
        let offset = match *guess {
            Some(old) if self.opening.load(Ordering::Acquire) => seen.min(old.offset),
            Some(old) => {
                let passed = (now - old.at).max(0);
                // A device that was held up may have seen less time pass.
                let fall = passed.min(stamp - old.stamp).max(0) / 2;
                seen.clamp(old.offset - fall, old.offset + passed * DRIFT / 1_000_000)
            }
            None => seen,
        };
        *guess = Some(Guess { offset, at: now, stamp });
    }

    /// Time at which the device made `stamp`, on the host's clock.
    pub(crate) fn place(&self, stamp: u64) -> Duration {
        let guess = self.guess.lock();
        let stamp = self.nanos(stamp).unwrap_or_default();
        let place = stamp + guess.map_or(0, |guess| guess.offset);
        Duration::from_nanos(self.in_order(stamp, place).max(0) as u64)
    }

    /// The place that is nearest to this one and leaves the newest stamp where it is.
    fn in_order(&self, stamp: i128, place: i128) -> i128 {
        if self.opening.load(Ordering::Acquire) {
            return place;
        }
        let mut placed = self.placed.lock();
        match *placed {
            Some((newest, at)) if stamp < newest => place.min(at),
            before => {
                let place = before.map_or(place, |(_, at)| place.max(at));
                *placed = Some((stamp, place));
                place
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tick is a nanosecond.
    fn clock_of_nanoseconds() -> Clock {
        let clock = Clock::new();
        clock.set_rate(1_000_000_000);
        clock
    }

    #[test]
    fn a_tick_is_as_long_as_its_rate_says() {
        let clock = Clock::new();
        clock.observe(1); // before the rate is known: nothing that counts
        clock.set_rate(25_000_000);
        clock.observe_at(clock.nanos(1_000).unwrap(), clock.nanos(1_000).unwrap());
        clock.open();
        let apart = clock.place(26_000_000) - clock.place(1_000_000);
        assert_eq!(apart, Duration::from_secs(1));
        assert_eq!(clock.nanos(u64::MAX).unwrap(), i128::from(u64::MAX) * 40, "nothing wraps");
    }

    #[test]
    fn the_quickest_sight_of_a_stamp_counts() {
        let clock = clock_of_nanoseconds();
        clock.observe_at(5_300, 1_000);
        clock.observe_at(6_010, 2_000);
        clock.observe_at(9_000, 3_000);
        assert_eq!(clock.place(3_000), Duration::from_nanos(7_010));
    }

    #[test]
    fn a_better_guess_does_not_swap_two_events() {
        let clock = clock_of_nanoseconds();
        clock.observe_at(9_000, 1_000);
        clock.open();
        let first = clock.place(1_000);
        clock.observe_at(9_100, 1_100 + 7_000); // seen 7 µs sooner
        assert!(clock.place(1_100) > first);
        clock.observe_at(109_000, 101_000 + 7_000);
        assert_eq!(clock.place(101_000), Duration::from_nanos(102_000), "in the end it counts");
    }

    #[test]
    fn events_between_two_polls_keep_their_order() {
        let clock = clock_of_nanoseconds();
        clock.observe_at(9_000, 1_000);
        clock.open();
        let first = clock.place(10_000); // has a place before it is looked at
        clock.observe_at(11_000, 11_000); // much sooner than the guess
        let (second, third) = (clock.place(10_500), clock.place(20_000));
        assert!(first <= second && second <= third, "{first:?} {second:?} {third:?}");
        assert!(clock.place(9_000) <= first);
    }

    #[test]
    fn the_guess_follows_a_clock_that_drifts() {
        let clock = clock_of_nanoseconds();
        clock.open();
        // The host's clock gains 20 ppm; each second a stamp is seen after a microsecond.
        for second in 0..1000i128 {
            let stamp = second * 1_000_000_000;
            clock.observe_at(stamp + second * 20_000 + 1_000, stamp);
        }
        let truth = 999 * 1_000_000_000 + 999 * 20_000;
        let error = clock.place(999_000_000_000).as_nanos() as i128 - truth;
        assert!((0..=2_000).contains(&error), "{error} ns");
    }
}
