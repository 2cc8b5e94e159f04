//! Choice of the process that leaves the GPU for another one.

use crate::class::Class;
use std::cmp::Reverse;
use std::time::Duration;

/// A process that may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: u64,
    pub(super) class: Class,
    /// Time since its last request.
    pub(super) unused: Duration,
    /// Bytes on the device; 0 if they are not known.
    pub(super) bytes: u64,
}

/// Returns the least valuable candidate: best-effort before real-time, then the one that has been
/// unused for the longest time, then the largest. `None` without candidates.
pub(super) fn least_valuable(candidates: &[Candidate]) -> Option<u64> {
    let order = |one: &&Candidate| {
        (one.class == Class::RealTime, Reverse(one.unused), Reverse(one.bytes), one.id)
    };
    candidates.iter().min_by_key(order).map(|one| one.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Class::{BestEffort, RealTime};

    fn candidate(id: u64, class: Class, seconds: u64, bytes: u64) -> Candidate {
        Candidate { id, class, unused: Duration::from_secs(seconds), bytes }
    }

    #[test]
    fn best_effort_leaves_before_real_time() {
        let all = [candidate(1, RealTime, 900, 90), candidate(2, BestEffort, 1, 10)];
        assert_eq!(least_valuable(&all), Some(2));
        assert_eq!(least_valuable(&all[..1]), Some(1));
        assert_eq!(least_valuable(&[]), None);
    }

    #[test]
    fn longest_unused_leaves_first_and_larger_of_equals() {
        let mut all = [
            candidate(1, BestEffort, 5, 90),
            candidate(2, BestEffort, 9, 10),
            candidate(3, BestEffort, 9, 20),
        ];
        assert_eq!(least_valuable(&all), Some(3), "the larger one of those unused for longest");
        all[2].unused = Duration::from_secs(8);
        assert_eq!(least_valuable(&all), Some(2), "its size comes second");
        all[1] = candidate(2, BestEffort, 5, 90);
        all[2] = candidate(3, BestEffort, 5, 90);
        assert_eq!(least_valuable(&all), Some(1), "the first of equals");
    }
}
