//! Numbers of runs.

/// Number of a run: that of its slice, and in the last two bits how many resumes came before.
/// Numbers wrap around, and are compared as the driver's waits do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(pub(super) u32);

impl Number {
    /// Returns the number of a slice's first run.
    pub(super) fn first(slice: u32) -> Self {
        Self(slice << 2)
    }

    /// Returns the number of the next resume. `None`: this run is the last one.
    pub(super) fn next(self) -> Option<Self> {
        (self.0 & 3 < 3).then_some(Self(self.0.wrapping_add(1)))
    }

    /// Returns whether it is a slice's first run.
    pub(super) fn is_first(self) -> bool {
        self.0 & 3 == 0
    }

    /// Returns the number of the last run of its slice, which a complete slice writes.
    pub(super) fn last(self) -> u32 {
        self.0 | 3
    }

    /// Returns whether a word has this number, or a later one.
    pub(super) fn is_reached(self, word: u32) -> bool {
        word.wrapping_sub(self.0) as i32 >= 0
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
        assert!(first.is_first() && !all[1].is_first());
        assert!(all.iter().all(|number| number.last() == 31 && number.is_reached(31)));
    }

    #[test]
    fn numbers_wrap_around() {
        let last = Number::first(u32::MAX >> 2);
        let next = Number::first((u32::MAX >> 2).wrapping_add(1));
        assert_eq!(next, Number(0));
        assert!(last.is_reached(next.0) && !next.is_reached(last.last()));
    }
}
