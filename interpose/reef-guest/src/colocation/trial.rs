//! Trial: whether windows pay, by what best-effort programs do with and without them.

/// Length of a slot, in nanoseconds, and the number of slots of each sort.
const SLOT: u64 = 400_000_000;
const SLOTS: usize = 4;
/// Least gain that is worth a later end of real-time work, as a part of what is done anyway.
const MIN_GAIN: f64 = 0.02;
/// Work with windows as a multiple of that without, from which one slot of each sort is clear:
/// further ones without windows would only take from best-effort programs.
const CLEAR_GAIN: f64 = 3.0;

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// Best-effort programs do more with windows.
    Pays,
    /// They do no more than without, which is this amount a nanosecond.
    PaysNot(f64),
    /// They did nothing at all, or the real-time program has stopped.
    Nothing,
}

/// Slots with windows and without, in turn: one sort, the other one twice, and so on, so that a
/// change that lasts gives neither an advantage.
#[derive(Debug)]
pub(crate) struct Trial {
    /// Begin of the slot, and the work that had been done then.
    begin: u64,
    work: u64,
    /// Rates of the slots that have ended: without windows and with them.
    rates: [Vec<f64>; 2],
}

impl Trial {
    /// Begins a trial at this time, in nanoseconds, when this much work has been done, in any unit.
    pub(crate) fn new(now: u64, work: u64) -> Self {
        Self { begin: now, work, rates: [Vec::new(), Vec::new()] }
    }

    /// Returns whether windows open in this slot.
    pub(crate) fn has_windows(&self) -> bool {
        let slot = self.rates.iter().map(Vec::len).sum::<usize>();
        matches!(slot % 4, 0 | 3)
    }

    /// Notes the time, the work that has been done, and the time until which the real-time program
    /// works, as far as is known. Returns the result of the last slot's end.
    pub(crate) fn note(&mut self, now: u64, work: u64, works_until: u64) -> Option<Outcome> {
        let time = now.saturating_sub(self.begin);
        if time < SLOT {
            return None;
        }
        let rate = work.saturating_sub(self.work) as f64 / time as f64;
        self.rates[usize::from(self.has_windows())].push(rate);
        let has_worked = works_until > self.begin;
        (self.begin, self.work) = (now, work);
        if self.is_clear() {
            return Some(Outcome::Pays);
        }
        let is_over = self.rates.iter().all(|rates| rates.len() == SLOTS);
        is_over.then(|| if has_worked { self.outcome() } else { Outcome::Nothing })
    }

    fn is_clear(&self) -> bool {
        let [without, with] = &self.rates;
        matches!((&without[..], &with[..]), ([without], [with]) if *with > CLEAR_GAIN * without)
    }

    fn outcome(&self) -> Outcome {
        let [(without, one), (with, other)] =
            [0, 1].map(|sort| mean_and_variance(&self.rates[sort]));
        if with + without == 0.0 {
            return Outcome::Nothing;
        }
        let uncertain = ((one + other) / SLOTS as f64).sqrt();
        let least = (MIN_GAIN * without).max(uncertain);
        if with - without > least { Outcome::Pays } else { Outcome::PaysNot(without) }
    }
}

fn mean_and_variance(of: &[f64]) -> (f64, f64) {
    let count = of.len() as f64;
    let mean = of.iter().sum::<f64>() / count;
    let squares = of.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
    (mean, squares / (count - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Result of a trial in which this much is done a millisecond, by the time and by whether
    /// windows open.
    fn tried(rate: impl Fn(u64, bool) -> u64) -> Outcome {
        let (mut now, mut work) = (5, 1000);
        let mut trial = Trial::new(now, work);
        loop {
            now += 1_000_000;
            work += rate(now, trial.has_windows());
            if let Some(outcome) = trial.note(now, work, now) {
                return outcome;
            }
        }
    }

    #[test]
    fn windows_pay_if_more_is_done_with_them() {
        assert_eq!(tried(|_, has_windows| u64::from(has_windows)), Outcome::Pays);
        assert_eq!(tried(|_, has_windows| 100 + 5 * u64::from(has_windows)), Outcome::Pays);
        assert_eq!(tried(|_, _| 0), Outcome::Nothing);
        for loss in [0, 5] {
            let outcome = tried(|_, has_windows| 100 - loss * u64::from(has_windows));
            assert_eq!(outcome, Outcome::PaysNot(100e-6));
        }
    }

    #[test]
    fn clear_gain_ends_a_trial_after_a_slot_without_windows() {
        let (mut trial, mut now, mut work, mut closed) = (Trial::new(0, 0), 0, 0, 0);
        let outcome = loop {
            now += 1_000_000;
            work += if trial.has_windows() { 100 } else { 10 };
            closed += u32::from(!trial.has_windows());
            if let Some(outcome) = trial.note(now, work, now) {
                break outcome;
            }
        };
        assert_eq!((outcome, closed), (Outcome::Pays, 400));
    }

    /// Best-effort work needs no windows then.
    #[test]
    fn trial_in_which_the_program_stops_says_nothing() {
        for slots in 0..7 {
            let (mut trial, mut now, mut work) = (Trial::new(0, 0), 0, 0);
            let outcome = loop {
                now += 1_000_000;
                let stop = slots * SLOT;
                work += if now > stop { 100 } else { 10 + 10 * u64::from(trial.has_windows()) };
                if let Some(outcome) = trial.note(now, work, now.min(stop)) {
                    break outcome;
                }
            };
            assert_eq!(outcome, Outcome::Nothing, "stopped after {slots} of 8 slots");
        }
    }

    /// None ends in it then.
    #[test]
    fn trial_within_a_long_iteration_has_a_result() {
        let (mut trial, mut now, mut work) = (Trial::new(7, 0), 7, 0);
        let outcome = loop {
            (now, work) = (now + 1_000_000, work + 10);
            if let Some(outcome) = trial.note(now, work, 5_000_000_000) {
                break outcome;
            }
        };
        assert!(matches!(outcome, Outcome::PaysNot(_)), "{outcome:?}");
    }

    #[test]
    fn steady_change_is_no_gain() {
        for from in [100, 400] {
            let outcome = tried(|now, _| from + now / 100_000_000);
            assert!(matches!(outcome, Outcome::PaysNot(_)), "{outcome:?}");
            let outcome = tried(|now, _| from - now / 100_000_000);
            assert!(matches!(outcome, Outcome::PaysNot(_)), "{outcome:?}");
        }
    }

    #[test]
    fn gain_within_the_noise_does_not_count() {
        // Each slot differs by more than the gain.
        let noisy = |now: u64| 100 + 60 * (now / SLOT).wrapping_mul(2_654_435_761) % 97;
        let outcome = tried(|now, has_windows| noisy(now) + 3 * u64::from(has_windows));
        assert!(matches!(outcome, Outcome::PaysNot(_)), "{outcome:?}");
    }
}
