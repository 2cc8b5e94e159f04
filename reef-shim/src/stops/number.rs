//! Numbers of runs.

/// Runs of a slice: the first one and its resumes.
pub(super) const RUNS: u32 = 4;

/// Number of a run: that of its slice, and in the last two bits how many runs came before. Numbers
/// wrap around, and are compared as the driver's waits do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(pub(super) u32);

impl Number {
    /// Returns the number of a slice's first run.
    pub(super) fn first(slice: u32) -> Self {
        Self(slice.wrapping_mul(RUNS))
    }

    /// Returns how many runs of its slice came before.
    pub(super) fn index(self) -> u32 {
        self.0 % RUNS
    }

    /// Returns the number of the run after it. `None`: it is the last one of its slice.
    pub(super) fn next(self) -> Option<Self> {
        (self.index() + 1 < RUNS).then_some(Self(self.0.wrapping_add(1)))
    }

    /// Returns the number of the last run of its slice.
    pub(super) fn last(self) -> Self {
        Self(self.0 | (RUNS - 1))
    }

    /// Returns whether it is later than another one.
    pub(super) fn is_after(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) as i32 > 0
    }

    /// Returns whether it is of the same slice.
    pub(super) fn is_of_slice(self, other: Self) -> bool {
        self.last() == other.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slice_has_three_resumes() {
        let first = Number::first(7);
        let all: Vec<_> = std::iter::successors(Some(first), |number| number.next()).collect();
        assert_eq!(all, [Number(28), Number(29), Number(30), Number(31)]);
        assert!(all.iter().all(|number| number.last() == all[3] && number.is_of_slice(first)));
        assert!(!all[3].is_of_slice(Number::first(8)));
    }

    #[test]
    fn numbers_wrap_around() {
        let last = Number::first(u32::MAX / RUNS);
        assert_eq!(last.last(), Number(u32::MAX));
        let next = Number::first((u32::MAX / RUNS).wrapping_add(1));
        assert_eq!(next, Number(0));
        assert!(next.is_after(last.last()) && !last.is_after(next) && !last.is_after(last));
    }
}
