//! Choice of the guests that leave a device for real-time work, cheapest first.

use std::cmp::Reverse;
use std::time::Instant;

/// Processes that leave together: those of a job, or one without a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Process numbers.
    pub(super) pids: Vec<u32>,
    /// Part of the device's time that it may have, in parts per million; zero without a limit.
    pub(super) weight: u32,
    /// Bytes on the device.
    pub(super) bytes: u64,
    /// Last return. `None`: it was never suspended.
    pub(super) returned: Option<Instant>,
}

/// Returns the index of the next candidate that leaves, if all together have `need` bytes; `None`
/// if they have less, so that none leaves for nothing.
///
/// Candidates of the lowest weight come first. Among them the smallest that frees enough leaves, or
/// the largest if none does; of several, the one that has been back for the longest time.
pub(super) fn choose(candidates: &[Candidate], need: u64) -> Option<usize> {
    let all = candidates.iter().fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
    if all < need {
        return None;
    }
    let lowest = candidates.iter().map(|one| one.weight).min()?;
    let order = |(_, one): &(usize, &Candidate)| {
        let is_short = one.bytes < need;
        let size = if is_short { u64::MAX - one.bytes } else { one.bytes };
        (is_short, size, one.returned, Reverse(one.pids.len()))
    };
    let cheapest = candidates.iter().enumerate().filter(|(_, one)| one.weight == lowest);
    cheapest.min_by_key(order).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(weight: u32, bytes: u64) -> Candidate {
        Candidate { pids: vec![1], weight, bytes, returned: None }
    }

    #[test]
    fn smallest_of_the_lowest_weight_that_frees_enough_leaves() {
        let all = [candidate(5, 40), candidate(0, 90), candidate(0, 50), candidate(0, 10)];
        assert_eq!(choose(&all, 40), Some(2));
        assert_eq!(choose(&all, 60), Some(1));
        assert_eq!(choose(&all, 95), Some(1), "the largest, and then others");
        assert_eq!(choose(&all, 191), None, "all together have less");
        assert_eq!(choose(&[], 1), None);
    }

    #[test]
    fn longest_back_leaves_first_of_equals() {
        let now = Instant::now();
        let mut all = [candidate(0, 50), candidate(0, 50), candidate(0, 50)];
        all[0].returned = Some(now);
        all[1].returned = Some(now - std::time::Duration::from_secs(9));
        assert_eq!(choose(&all, 40), Some(2), "never away");
        assert_eq!(choose(&all[..2], 40), Some(1));
    }

    proptest! {
        /// Whatever the sizes: enough leave, and none after that.
        #[test]
        fn enough_leave_and_no_more(
            sizes in proptest::collection::vec((0_u32..3, 0_u64..100), 0..8),
            need in 0_u64..300,
        ) {
            let mut left: Vec<_> =
                sizes.iter().map(|&(weight, bytes)| candidate(weight, bytes)).collect();
            let all: u64 = sizes.iter().map(|&(_, bytes)| bytes).sum();
            let (mut freed, mut gone) = (0, Vec::new());
            while freed < need {
                let Some(at) = choose(&left, need - freed) else { break };
                let one = left.swap_remove(at);
                freed += one.bytes;
                gone.push(one);
            }
            prop_assert_eq!(freed >= need, all >= need);
            prop_assert!(all >= need || gone.is_empty(), "none leaves for nothing");
            if let Some(last) = gone.last() {
                prop_assert!(freed - last.bytes < need);
            }
        }
    }
}
