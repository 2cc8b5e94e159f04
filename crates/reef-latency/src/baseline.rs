//! All kinds of work of one program or device.

use crate::kind::{Kind, LATE_SHARE};

/// Maximum number of kinds. Runs of further ones are ignored.
const MAX_KINDS: usize = 16;

/// Lengths of runs alone, kind by kind.
#[derive(Debug)]
pub struct Baseline {
    kinds: Vec<Kind>,
    patience: u32,
    tolerance: f64,
}

/// Judgement of a run next to other work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Its length, divided by that which few runs of its kind exceed alone.
    pub relative: f64,
    /// It is longer than the target allows.
    pub is_late: bool,
    /// Share of the runs that may be late: [`LATE_SHARE`] more than are longer than that alone.
    pub share: f64,
    /// Number of runs alone by which this was judged.
    pub known: usize,
}

impl Verdict {
    /// Returns the run's weight: 1 if no run alone is late, and less if some are or there were few,
    /// so that the sum of the same number of runs varies by as much.
    pub fn weight(&self) -> f64 {
        let variance = |share: f64| share * (1.0 - share);
        (variance(LATE_SHARE) / variance(self.share)).sqrt()
    }

    /// Returns late runs by which there were more than are allowed, weighted: in the mean zero for
    /// work that is at its target.
    pub fn excess(&self) -> f64 {
        self.weight() * (f64::from(u8::from(self.is_late)) - self.share)
    }
}

impl Baseline {
    /// Creates one that drops a kind's older lengths after `patience` measurements in sequence
    /// whose median was outside of the middle nine tenths of these, widened by the part
    /// `tolerance`.
    pub fn new(patience: u32, tolerance: f64) -> Self {
        Self { kinds: Vec::new(), patience, tolerance }
    }

    /// Notes the length of a run alone, in any unit. One that is not positive says nothing.
    pub fn note(&mut self, kind: u64, length: f64) {
        if !(length > 0.0 && length.is_finite()) {
            return;
        }
        let known = self.kinds.iter().position(|one| one.name == kind);
        let at = known.unwrap_or(self.kinds.len());
        if at == self.kinds.len() && at < MAX_KINDS {
            self.kinds.push(Kind::new(kind));
        }
        self.kinds.get_mut(at).into_iter().for_each(|one| one.note(length));
    }

    /// Returns the number of runs in the measurement that lasts.
    pub fn fresh(&self) -> usize {
        self.kinds.iter().map(|kind| kind.latest).sum()
    }

    /// Returns whether no kind's lengths alone are known.
    pub fn is_unknown(&self) -> bool {
        self.kinds.iter().all(|kind| kind.limit().is_none())
    }

    /// Returns whether the last measurement of a kind was far from what is kept.
    pub fn is_odd(&self) -> bool {
        self.kinds.iter().any(|kind| kind.odd > 0)
    }

    /// Ends a measurement. Returns whether a kind has changed. If there are as many kinds as are
    /// kept, those that were not in it make room.
    pub fn settle(&mut self) -> bool {
        let (patience, tolerance) = (self.patience, self.tolerance);
        let settle = |changed, kind: &mut Kind| kind.settle(patience, tolerance) | changed;
        let changed = self.kinds.iter_mut().fold(false, settle);
        if self.kinds.len() == MAX_KINDS {
            self.kinds.retain(|kind| kind.latest > 0);
        }
        self.kinds.iter_mut().for_each(|kind| kind.latest = 0);
        changed
    }

    /// Judges a run by the target `ratio`. `None`: the lengths alone of its kind are not known.
    pub fn verdict(&self, kind: u64, length: f64, ratio: f64) -> Option<Verdict> {
        let kind = self.kinds.iter().find(|one| one.name == kind)?;
        let limit = kind.limit()?;
        let (relative, share) = (length / limit, kind.share_above(limit * ratio) + LATE_SHARE);
        Some(Verdict { relative, is_late: relative > ratio, share, known: kind.kept_count() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measured(kind: u64, lengths: impl IntoIterator<Item = f64>) -> Baseline {
        let mut all = Baseline::new(1, 0.05);
        lengths.into_iter().for_each(|length| all.note(kind, length));
        all.settle();
        all
    }

    fn varied(at: u32) -> f64 {
        1.0 + f64::from(at.wrapping_mul(2_654_435_761) >> 16) / f64::from(1 << 16)
    }

    #[test]
    fn noisy_kind_does_not_loosen_a_steady_one() {
        let mut all = measured(1, (0..400).map(|_| 100.0));
        (0..400).for_each(|at| all.note(2, 100.0 * varied(at)));
        all.settle();
        assert!(all.verdict(1, 111.0, 1.10).unwrap().is_late);
        assert!(!all.verdict(2, 199.0, 1.10).unwrap().is_late);
    }

    #[test]
    fn few_runs_give_a_lower_quantile_and_less_weight() {
        let of = |count| measured(1, (0..count).map(varied)).verdict(1, 1.5, 1.0).unwrap();
        let [few, some, many] = [8, 96, 1000].map(of);
        assert!(few.relative > some.relative && some.relative > many.relative);
        assert!(few.weight() < some.weight() && some.weight() < many.weight());
        let steady = measured(1, (0..1000).map(|_| 1.0)).verdict(1, 1.0, 1.1).unwrap();
        assert!((steady.share - LATE_SHARE).abs() < 0.001 && steady.weight() > 0.9);
        assert_eq!((few.known, many.known), (8, 1000));
        assert_eq!(measured(1, (0..7).map(varied)).verdict(1, 1.5, 1.0), None);
    }

    #[test]
    fn change_drops_older_runs_and_noise_does_not() {
        let mut all = measured(1, (0..400).map(varied));
        (400..500).for_each(|at| all.note(1, varied(at)));
        assert!(!all.settle());
        (0..100).for_each(|at| all.note(1, 3.0 * varied(at)));
        assert!(all.settle());
        assert!(!all.verdict(1, 6.0, 1.05).unwrap().is_late);
    }

    #[test]
    fn older_runs_stay_until_changes_in_sequence() {
        let mut all = Baseline::new(3, 0.0);
        let mut measure = |factor: f64| {
            (0..100).for_each(|at| all.note(1, factor * varied(at)));
            all.settle()
        };
        // The latency in between belongs to the program: it is kept as well.
        assert_eq!([1.0, 3.0, 3.0, 1.0, 9.0, 9.0, 9.0].map(&mut measure), {
            [false, false, false, false, false, false, true]
        });
    }

    /// The change comes in the middle of the first measurement that sees it.
    #[test]
    fn runs_from_before_a_change_are_not_kept() {
        let mut all = Baseline::new(3, 0.0);
        let mut measure = |from: f64, to: f64| {
            (0..16).for_each(|at| all.note(1, varied(at) * if at < 7 { from } else { to }));
            all.settle()
        };
        let changes = [(9.0, 9.0), (9.0, 1.0), (1.0, 1.0), (1.0, 1.0)].map(|(a, b)| measure(a, b));
        assert_eq!(changes, [false, false, false, true]);
        assert!(all.verdict(1, 3.0, 1.05).unwrap().is_late);
    }

    /// The median of the first measurement with runs from after the change is one from before.
    #[test]
    fn change_within_a_measurement_does_not_hide_itself() {
        let mut all = Baseline::new(3, 0.0);
        let mut measure = |new: u32| {
            (0..16).for_each(|at| all.note(1, varied(at) * if at < new { 1.0 } else { 9.0 }));
            all.settle()
        };
        let changes = [0, 0, 6, 16, 16, 16].map(&mut measure);
        assert_eq!(changes, [false, false, false, false, false, true]);
        assert!(all.verdict(1, 3.0, 1.05).unwrap().is_late);
    }

    #[test]
    fn kinds_are_bounded_and_make_room() {
        let mut all = Baseline::new(1, 0.05);
        (0..100).for_each(|kind| all.note(kind, 1.0));
        assert_eq!(all.kinds.len(), MAX_KINDS);
        all.settle();
        all.note(3, 1.0);
        all.settle();
        assert_eq!(all.kinds.len(), 1);
    }

    #[test]
    fn lengths_that_are_no_lengths_are_ignored() {
        let all = measured(1, [0.0, -1.0, f64::NAN, f64::INFINITY].into_iter().cycle().take(99));
        assert!(all.is_unknown() && all.fresh() == 0);
    }

    proptest! {
        /// Nothing has changed: fewer runs are late than may be, by one in a hundred, whatever the
        /// number of runs alone and the target. In the mean over 40 programs.
        #[test]
        fn work_as_alone_has_one_late_run_in_a_hundred_left(
            seed: u32, count in 16_u32..1000, ratio in 1.0..1.5_f64
        ) {
            let (mut late, mut allowed) = (0.0, 0.0);
            for program in 0..40 {
                let from = seed.wrapping_add(program * 7919);
                let all = measured(1, (0..count).map(|at| varied(from.wrapping_add(at))));
                for at in 5000..6000 {
                    let verdict = all.verdict(1, varied(from.wrapping_add(at)), ratio).unwrap();
                    late += f64::from(u8::from(verdict.is_late)) / 40_000.0;
                    allowed += verdict.share / 40_000.0;
                }
            }
            let bound = LATE_SHARE + 0.5 / f64::from(count);
            // The mean of limits by so few runs is uncertain.
            let uncertain = 0.01 + 0.4 / f64::from(count);
            prop_assert!(
                (allowed - late - bound).abs() < uncertain,
                "{late}, {allowed} of {count}"
            );
        }
    }
}
