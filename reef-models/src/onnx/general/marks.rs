//! Numbers that stand for sizes which data decide, where bounds of such sizes are computed.

use crate::tensors::value::{Value, ValueData};
use std::collections::HashMap;

/// Marks are above this, as no number of rows that is met in practice.
const FIRST: i64 = 8_000_000;

/// Sizes by their marks.
///
/// A mark is a prime, so half of it, doubled, differs from all marks, and so for all divisors.
/// Marks are exact as integers of 32 bits, and half a million of them as singles.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    sizes: HashMap<i64, Value>,
    /// By the storages of sizes.
    numbers: HashMap<usize, i64>,
    last: i64,
}

impl Marks {
    /// The size that a mark stands for.
    pub(crate) fn get(&self, mark: i64) -> Option<&Value> {
        self.sizes.get(&mark)
    }

    /// The mark of a size, if it has one.
    pub(crate) fn of(&self, size: &Value) -> Option<i64> {
        self.numbers.get(&storage(size)?).copied()
    }

    /// The mark of a size, which may be new; `None` if the size is known.
    pub(crate) fn add(&mut self, size: &Value) -> Option<i64> {
        if let Some(mark) = self.of(size) {
            return Some(mark);
        }
        let storage = storage(size)?;
        let mark = (self.last.max(FIRST) + 1..).find(|&number| is_prime(number))?;
        self.last = mark;
        self.numbers.insert(storage, mark);
        self.sizes.insert(mark, size.clone());
        Some(mark)
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

    #[test]
    fn parts_of_a_mark_make_no_mark() {
        let size = |storage: usize| Value {
            spec: Spec { element: Element::I64, dims: Vec::new() },
            data: ValueData::Storage(storage),
            texts: None,
        };
        let mut marks = Marks::default();
        assert_eq!(marks.of(&size(4)), None);
        let all: Vec<i64> = (0..50).filter_map(|storage| marks.add(&size(storage))).collect();
        assert!(all.windows(2).all(|two| two[0] < two[1]), "{all:?}");
        assert_eq!((marks.add(&size(4)), marks.of(&size(4))), (Some(all[4]), Some(all[4])));
        for mark in all {
            assert!((2..5000).all(|divisor| marks.get(mark / divisor * divisor).is_none()));
        }
    }
}
