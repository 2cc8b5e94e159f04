//! Numbers of runs.

/// Slices of a group, at most.
pub(crate) const SLICES: usize = 8;
/// Numbers of a group: first runs of its slices from 0 on, and its three resumes at the end.
const GROUP: u32 = 16;
const RESUMES: u32 = 3;

/// Number of a run: that of its group, and in the last four bits which of its runs it is. Numbers
/// wrap around, and are compared as the driver's waits do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(pub(super) u32);

impl Number {
    /// Returns the number of the first run of a group's slice.
    pub(super) fn of_slice(group: u32, slice: usize) -> Self {
        debug_assert!(slice < SLICES);
        Self(group.wrapping_mul(GROUP) | slice as u32)
    }

    /// Returns the resumes of a group, each with the first number that it resumes.
    pub(super) fn resumes(group: u32) -> impl Iterator<Item = (Self, Self)> {
        let first = Self::of_slice(group, 0);
        let resume = move |at| Self(first.last().0 - RESUMES + at);
        (1..=RESUMES).map(move |at| (resume(at), if at == 1 { first } else { resume(at - 1) }))
    }

    /// Returns how many resumes of its group come before and with it.
    pub(super) fn resume(self) -> u32 {
        (self.0 % GROUP).saturating_sub(GROUP - 1 - RESUMES)
    }

    /// Returns the number of the last run of its group.
    pub(super) fn last(self) -> Self {
        Self(self.0 | (GROUP - 1))
    }

    /// Returns whether it is later than another one.
    pub(super) fn is_after(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) as i32 > 0
    }
}

/// Returns the group after one. None has the number 0, as a run of that number can't be resumed.
pub(super) fn next_group(group: u32) -> u32 {
    if group >= u32::MAX / GROUP { 1 } else { group + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_has_eight_slices_and_three_resumes() {
        let slices: Vec<_> = (0..SLICES).map(|slice| Number::of_slice(7, slice)).collect();
        assert_eq!((slices[0], slices[7]), (Number(112), Number(119)));
        let resumes: Vec<_> = Number::resumes(7).collect();
        let want = [(125, 112), (126, 125), (127, 126)];
        assert_eq!(resumes, want.map(|(number, from)| (Number(number), Number(from))));
        let all = slices.iter().copied().chain(resumes.iter().map(|resume| resume.0));
        assert!(all.clone().all(|number| number.last() == Number(127)));
        let indices: Vec<_> = all.map(Number::resume).collect();
        assert_eq!(indices, [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn numbers_wrap_around_without_zero() {
        let last = u32::MAX / GROUP;
        assert_eq!(Number::of_slice(last, 0).last(), Number(u32::MAX));
        let next = next_group(last);
        assert!(Number::of_slice(next, 0).is_after(Number::of_slice(last, 0).last()));
        assert_eq!((next, next_group(5)), (1, 6));
    }
}
