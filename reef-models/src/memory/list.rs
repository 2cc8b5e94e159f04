//! Lists whose memory was charged before it was made.

use super::budget::{Charge, Exhausted};
use super::ledger::Ledger;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Values one after the other. Its memory is given back to the budget when it is dropped.
pub(crate) struct List<T> {
    items: Vec<T>,
    /// For all of the capacity; `None` if it has none.
    charge: Option<Charge>,
}

impl<T> List<T> {
    /// Room for `len` values.
    pub(crate) fn with_capacity(len: usize, ledger: &Ledger) -> Result<Self, Exhausted> {
        let mut list = Self::default();
        list.reserve(len, ledger)?;
        Ok(list)
    }

    /// The first `len` values of `items`.
    pub(crate) fn of(
        len: usize,
        items: impl IntoIterator<Item = T>,
        ledger: &Ledger,
    ) -> Result<Self, Exhausted> {
        let mut list = Self::with_capacity(len, ledger)?;
        list.items.extend(items.into_iter().take(len));
        Ok(list)
    }

    /// As [`of`](Self::of), up to the first error.
    #[cfg(feature = "onnx")]
    pub(crate) fn try_of<E: From<Exhausted>>(
        len: usize,
        items: impl IntoIterator<Item = Result<T, E>>,
        ledger: &Ledger,
    ) -> Result<Self, E> {
        let mut list = Self::with_capacity(len, ledger)?;
        for item in items.into_iter().take(len) {
            list.items.push(item?);
        }
        Ok(list)
    }

    /// Values whose memory was charged.
    #[cfg(feature = "onnx")]
    pub(crate) fn charged(items: Vec<T>, charge: Charge) -> Self {
        Self { items, charge: Some(charge) }
    }

    #[cfg(feature = "onnx")]
    pub(crate) fn push(&mut self, item: T, ledger: &Ledger) -> Result<(), Exhausted> {
        self.reserve(1, ledger)?;
        self.items.push(item);
        Ok(())
    }

    /// Appends `len` values of `items`.
    pub(crate) fn append(
        &mut self,
        len: usize,
        items: impl IntoIterator<Item = T>,
        ledger: &Ledger,
    ) -> Result<(), Exhausted> {
        self.reserve(len, ledger)?;
        self.items.extend(items.into_iter().take(len));
        Ok(())
    }

    /// The values themselves. What they were charged stays charged as long as the budget is there.
    pub(crate) fn into_vec(self) -> Vec<T> {
        if let Some(charge) = self.charge {
            charge.keep();
        }
        self.items
    }

    /// Room for `more` values. While it grows, both the old and the new memory are charged.
    pub(crate) fn reserve(&mut self, more: usize, ledger: &Ledger) -> Result<(), Exhausted> {
        let wanted = self.items.len().saturating_add(more);
        if wanted <= self.items.capacity() {
            return Ok(());
        }
        let capacity = wanted.max(self.items.capacity().saturating_mul(2));
        let bytes = (capacity as u64).saturating_mul(size_of::<T>() as u64);
        let charge = ledger.charge(bytes)?;
        let made = self.items.try_reserve_exact(capacity - self.items.len());
        made.map_err(|_| ledger.refused_by_system(bytes))?;
        self.charge = Some(charge);
        Ok(())
    }
}

impl<T: Clone> List<T> {
    /// `len` times `value`.
    pub(crate) fn filled(value: T, len: usize, ledger: &Ledger) -> Result<Self, Exhausted> {
        Self::of(len, std::iter::repeat_n(value, len), ledger)
    }

    #[cfg(feature = "onnx")]
    pub(crate) fn copied(items: &[T], ledger: &Ledger) -> Result<Self, Exhausted> {
        Self::of(items.len(), items.iter().cloned(), ledger)
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { items: Vec::new(), charge: None }
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<T: PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::budget::Budget;

    #[test]
    fn list_charges_before_it_grows_and_gives_back_on_drop() {
        let budget = Budget::new(100);
        let ledger = Ledger::new(&budget);
        let mut list = List::filled(7u32, 10, &ledger).unwrap();
        assert_eq!(budget.used(), 40);
        assert!(list.push(8, &ledger).is_err(), "80 bytes next to 40");
        assert!(matches!(ledger.refusal(), Some(Exhausted::Budget { asked: 80, left: 60, .. })));
        drop(list);
        assert_eq!(budget.used(), 0);
        assert!(List::<u64>::with_capacity(usize::MAX, &ledger).is_err());
    }

    #[test]
    fn handed_over_values_stay_charged() {
        let budget = Budget::new(100);
        let ledger = Ledger::new(&budget.part(100));
        let mut list = List::default();
        (0..5).for_each(|i: u32| list.push(i, &ledger).unwrap());
        assert_eq!(list.into_vec(), [0, 1, 2, 3, 4]);
        assert_eq!(budget.used(), 32, "room for eight");
        drop(ledger);
        assert_eq!(budget.used(), 0);
    }
}
