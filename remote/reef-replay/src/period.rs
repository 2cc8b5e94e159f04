//! Search for repetition among the segments of a thread.
//!
//! For each period p up to 64 there is the length of the run in which each segment equals the one
//! p places before. A sequence that has come three times has a run of 2 p. Work at the start of a
//! program never repeats, and a token of a language model is p segments.

use std::collections::VecDeque;

/// Largest period.
const MAX_PERIOD: usize = 64;
/// Repetitions after which a sequence counts.
const REPETITIONS: usize = 3;

/// Hashes of the last segments.
#[derive(Debug, Default)]
pub(crate) struct Periods {
    /// The last one is at the back.
    history: VecDeque<u64>,
    /// Length of the run of each period.
    runs: Vec<usize>,
}

impl Periods {
    /// Adds a segment. Returns whether it belongs to a repetition.
    pub(crate) fn push(&mut self, hash: u64) -> bool {
        self.runs.resize(MAX_PERIOD, 0);
        for (run, earlier) in self.runs.iter_mut().zip(self.history.iter().rev()) {
            *run = if *earlier == hash { *run + 1 } else { 0 };
        }
        self.history.push_back(hash);
        if self.history.len() > MAX_PERIOD {
            self.history.pop_front();
        }
        self.period().is_some()
    }

    /// Least period of the last segments.
    fn period(&self) -> Option<usize> {
        let repeats = |(period, run): (usize, &usize)| *run >= (REPETITIONS - 1) * period;
        (1..)
            .zip(&self.runs)
            .find(|&(period, run)| repeats((period, run)))
            .map(|(period, _)| period)
    }

    /// Returns the hash of the segment that should come next.
    pub(crate) fn predicted(&self) -> Option<u64> {
        let period = self.period()?;
        self.history.get(self.history.len() - period).copied()
    }

    /// Forgets all segments.
    pub(crate) fn clear(&mut self) {
        self.history.clear();
        self.runs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns after how many segments the first repetition is found.
    fn found(segments: impl IntoIterator<Item = u64>) -> Option<usize> {
        let mut periods = Periods::default();
        segments.into_iter().position(|hash| periods.push(hash)).map(|at| at + 1)
    }

    #[test]
    fn third_repetition_of_any_period_is_found() {
        for period in 1..=MAX_PERIOD as u64 {
            let noise = (0..9).map(|hash| 1000 + hash);
            let program = noise.chain((0..).map(|at| at % period)).take(9 + 4 * period as usize);
            assert_eq!(found(program), Some(9 + 3 * period as usize), "{period}");
        }
    }

    #[test]
    fn noise_and_longer_periods_are_not_found() {
        assert_eq!(found(0..1000), None);
        assert_eq!(found((0..1000).map(|at| at % (MAX_PERIOD as u64 + 1))), None);
        assert_eq!(found([1, 1, 2, 1, 1, 2, 1, 1]), None, "a third time is not over");
    }

    #[test]
    fn next_segment_of_a_period_is_predicted() {
        let mut periods = Periods::default();
        assert_eq!(periods.predicted(), None);
        for at in 0..20 {
            periods.push(at % 3);
            let expected = (at >= 8).then_some((at + 1) % 3);
            assert_eq!(periods.predicted(), expected, "{at}");
        }
    }
}
