//! Storages that live at each step.

use std::ops::RangeInclusive;

/// Numbers of those that live at each step, in the order in which they were added: one list, of
/// which each step has a part.
pub(super) struct AtSteps {
    /// Begin of each step's part, and the number of its entries that are filled.
    parts: Vec<(usize, usize)>,
    numbers: Vec<usize>,
}

impl AtSteps {
    /// Room for all that live so, one of each.
    pub(super) fn of<'a>(lives: impl Iterator<Item = &'a RangeInclusive<usize>> + Clone) -> Self {
        let steps = lives.clone().map(|life| life.end() + 1).max().unwrap_or(0);
        let mut lens = vec![0usize; steps];
        lives.for_each(|life| lens[life.clone()].iter_mut().for_each(|len| *len += 1));
        let mut sum = 0;
        let part = |len: usize| {
            sum += len;
            (sum - len, 0)
        };
        let parts = lens.into_iter().map(part).collect();
        Self { parts, numbers: vec![0; sum] }
    }

    /// Numbers that live at `step`.
    pub(super) fn at(&self, step: usize) -> &[usize] {
        let (start, len) = self.parts[step];
        &self.numbers[start..start + len]
    }

    /// Adds `number` at each step of its `life`, one of those that there is room for.
    pub(super) fn add(&mut self, number: usize, life: &RangeInclusive<usize>) {
        for (start, len) in &mut self.parts[life.clone()] {
            self.numbers[*start + *len] = number;
            *len += 1;
        }
    }
}
