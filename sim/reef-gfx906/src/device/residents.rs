//! Workgroups that are on units and wait for their turn.

use super::group::{Group, Turn};
use crate::settings::Settings;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// One in this number of turns goes to a lower priority, so that a workgroup that waits for one of
/// lower priority doesn't wait for ever.
const FAIRNESS: u64 = 8;

/// Order in which workgroups run.
#[derive(Debug)]
pub(crate) enum Order {
    /// One after the other.
    Rotation,
    /// A seed.
    Chance(Box<ChaCha8Rng>),
}

impl Order {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self::Chance(Box::new(ChaCha8Rng::seed_from_u64(seed)))
    }

    /// A seed decides where one thread runs everything.
    pub(crate) fn of(settings: &Settings) -> Self {
        match settings.workers {
            0 => Self::from_seed(settings.seed),
            _ => Self::Rotation,
        }
    }
}

/// The workgroups, by falling priority.
#[derive(Debug)]
pub(crate) struct Residents {
    levels: BTreeMap<Reverse<i32>, VecDeque<Group>>,
    order: Order,
    turns: u64,
    slice: u32,
}

impl Residents {
    pub(crate) fn new(order: Order, slice: u32) -> Self {
        Self { levels: BTreeMap::new(), order, turns: 0, slice }
    }

    /// Sets the order from now on, from its beginning.
    pub(crate) fn begin_anew(&mut self, order: Order) {
        self.order = order;
    }

    pub(crate) fn len(&self) -> usize {
        self.levels.values().map(VecDeque::len).sum()
    }

    pub(crate) fn push(&mut self, priority: i32, group: Group) {
        self.levels.entry(Reverse(priority)).or_default().push_back(group);
    }

    /// Takes out the workgroup that runs next.
    pub(crate) fn pick(&mut self) -> Option<(Group, Turn)> {
        let filled: Vec<Reverse<i32>> = self
            .levels
            .iter()
            .filter(|(_, level)| !level.is_empty())
            .map(|(&key, _)| key)
            .collect();
        if filled.is_empty() {
            return None;
        }
        self.turns += 1;
        let level = self.choose_level(filled.len());
        let level = self.levels.get_mut(&filled[level]).expect("it is filled");
        match &mut self.order {
            Order::Rotation => level.pop_front().map(|group| (group, Turn::All(self.slice))),
            Order::Chance(rng) => {
                let group = level.swap_remove_back(rng.random_range(0..level.len()))?;
                let steps = rng.random_range(1..=self.slice);
                Some((group, Turn::One { choice: rng.random(), steps }))
            }
        }
    }

    /// Mostly the first of `count`.
    fn choose_level(&mut self, count: usize) -> usize {
        let turn = self.turns;
        match &mut self.order {
            Order::Rotation if turn.is_multiple_of(FAIRNESS) => (turn / FAIRNESS) as usize % count,
            Order::Rotation => 0,
            Order::Chance(rng) => {
                if rng.random_ratio(1, FAIRNESS as u32) {
                    rng.random_range(0..count)
                } else {
                    0
                }
            }
        }
    }

    /// Takes out all for which `belongs` holds.
    pub(crate) fn remove(&mut self, belongs: impl Fn(&Group) -> bool) -> Vec<Group> {
        let mut removed = Vec::new();
        for level in self.levels.values_mut() {
            let (gone, kept) = std::mem::take(level).into_iter().partition(|group| belongs(group));
            *level = kept;
            removed.extend::<VecDeque<_>>(gone);
        }
        removed
    }
}
