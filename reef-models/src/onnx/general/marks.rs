//! Numbers that stand for sizes which data decide, where bounds of such sizes are computed.

use crate::tensors::value::{Value, ValueData};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Marks are above this, as no number of rows that is met in practice.
const FIRST: i64 = 8_000_000;

/// Least difference of two marks.
const GAP: i64 = 1_009;

/// Number of marks whose differences differ.
const APART: usize = 64;

/// Sizes by their marks.
///
/// A mark is a prime, so half of it, doubled, differs from all marks, and so for all divisors. Two
/// marks are a thousand numbers apart, so a mark and a few rows more is none of the others. The
/// first 64 differ from each other by another number each time, so the sum of two is that of no
/// other two. Two thousand marks are exact as singles, all as integers of 32 bits.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    sizes: RefCell<HashMap<i64, Value>>,
    /// By the storages of sizes.
    numbers: RefCell<HashMap<usize, i64>>,
    /// Numbers of sizes that are computed of others, at their marks.
    computed: RefCell<HashMap<usize, i64>>,
    all: RefCell<Vec<i64>>,
    /// Between any two of the first marks.
    differences: RefCell<HashSet<i64>>,
}

impl Marks {
    /// The size that a mark stands for.
    pub(crate) fn get(&self, mark: i64) -> Option<Value> {
        self.sizes.borrow().get(&mark).cloned()
    }

    /// The mark of a size, if it has one.
    pub(crate) fn of(&self, size: &Value) -> Option<i64> {
        self.numbers.borrow().get(&storage(size)?).copied()
    }

    /// The mark of a size, which may be new; `None` if the size is known.
    pub(crate) fn add(&self, size: &Value) -> Option<i64> {
        if let Some(mark) = self.of(size) {
            return Some(mark);
        }
        let storage = storage(size)?;
        let (mut all, mut differences) = (self.all.borrow_mut(), self.differences.borrow_mut());
        let first = all.last().map_or(FIRST, |last| last + GAP);
        let mark = (first..).find(|&number| {
            let are_new = || all.iter().all(|mark| !differences.contains(&(number - mark)));
            is_prime(number) && (all.len() >= APART || are_new())
        })?;
        if all.len() < APART {
            differences.extend(all.iter().map(|other| mark - other));
        }
        all.push(mark);
        self.numbers.borrow_mut().insert(storage, mark);
        self.sizes.borrow_mut().insert(mark, size.clone());
        Some(mark)
    }

    /// Says which number a size has that is computed of others, at their marks.
    pub(crate) fn set_computed(&self, size: &Value, number: i64) {
        if let Some(storage) = storage(size) {
            self.computed.borrow_mut().insert(storage, number);
        }
    }

    /// The number of a size at the marks of those that it is computed of, or its mark.
    pub(crate) fn number(&self, size: &Value) -> Option<i64> {
        let computed = self.computed.borrow().get(&storage(size)?).copied();
        computed.or_else(|| self.add(size))
    }

    /// True if a size has this number. Another size may have it too, but for marks.
    pub(crate) fn is(&self, size: &Value, number: i64) -> bool {
        self.of(size) == Some(number) || self.number(size) == Some(number)
    }
}

fn storage(size: &Value) -> Option<usize> {
    match size.data {
        ValueData::Storage(storage) => Some(storage),
        ValueData::Known(_) => None,
    }
}

fn is_prime(number: i64) -> bool {
    (2..).take_while(|k| k * k <= number).all(|k| number % k != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::{Element, Spec};

    fn size(storage: usize) -> Value {
        Value {
            spec: Spec { element: Element::I64, dims: Vec::new() },
            data: ValueData::Storage(storage),
            texts: None,
        }
    }

    #[test]
    fn parts_of_a_mark_make_no_mark() {
        let marks = Marks::default();
        assert_eq!(marks.of(&size(4)), None);
        let all: Vec<i64> = (0..50).filter_map(|storage| marks.add(&size(storage))).collect();
        assert!(all.windows(2).all(|two| two[0] < two[1]), "{all:?}");
        assert_eq!((marks.add(&size(4)), marks.of(&size(4))), (Some(all[4]), Some(all[4])));
        for mark in all {
            assert!((2..5000).all(|divisor| marks.get(mark / divisor * divisor).is_none()));
        }
    }

    #[test]
    fn sums_with_a_mark_make_no_mark_and_no_other_sum() {
        let marks = Marks::default();
        let all: Vec<i64> = (0..64).filter_map(|storage| marks.add(&size(storage))).collect();
        let mut sums = HashSet::new();
        for (k, mark) in all.iter().enumerate() {
            assert!((1..1_000).all(|more| marks.get(mark + more).is_none()));
            assert!(all[k..].iter().all(|other| sums.insert(mark + other)), "{mark}");
        }
        assert!(all[63] < 1 << 24, "{}", all[63]);
        (64..2_000).for_each(|storage| assert!(marks.add(&size(storage)).unwrap() < 1 << 24));
    }
}
