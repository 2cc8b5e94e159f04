//! How much memory models and clients may take; refused before anything is allocated.

use crate::error::{Error, Result};
use reef::models::{self, Charge, Exhausted};
use std::sync::Arc;

/// A pot of bytes that reservations are taken from.
#[derive(Debug)]
pub(crate) struct Budget {
    pot: models::Budget,
    total: u64,
    /// What it is a part of.
    of: Option<Arc<Budget>>,
}

impl Budget {
    /// A pot of `total` bytes; 0 is as many as there are.
    pub(crate) fn new(total: u64) -> Arc<Self> {
        let total = or_all(total);
        Arc::new(Self { pot: models::Budget::new(total), total, of: None })
    }

    /// At most `total` bytes of this one, for what is on one device; `None`: no limit of its own.
    pub(crate) fn of_device(self: &Arc<Self>, total: Option<u64>) -> Arc<Self> {
        let total = total.unwrap_or(u64::MAX);
        Arc::new(Self { pot: self.pot.part(total), total, of: Some(self.clone()) })
    }

    /// Takes `bytes` for `what`, until the reservation is dropped.
    ///
    /// # Errors
    ///
    /// `Exhausted`, with what was asked and what is left.
    pub(crate) fn reserve(&self, what: &str, bytes: u64) -> Result<Reservation> {
        let charge = self.pot.charge(bytes).map_err(|why| exhausted(what, bytes, &why))?;
        Ok(Reservation(charge))
    }

    /// At most `bytes` of it, for reading a model's files; 0 is no limit. All of it is given back
    /// when the part is dropped.
    pub(crate) fn part(&self, bytes: u64) -> models::Budget {
        self.pot.part(or_all(bytes))
    }

    /// Whether `bytes` fit once `freed` of those that are reserved have been given back.
    pub(crate) fn fits_without(&self, freed: u64, bytes: u64) -> bool {
        let kept = self.used().saturating_sub(freed);
        let above = self.of.as_ref().is_none_or(|of| of.fits_without(freed, bytes));
        above && kept.saturating_add(bytes) <= self.total
    }

    /// Bytes that can still be reserved.
    pub(crate) fn left(&self) -> u64 {
        let above = self.of.as_ref().map_or(u64::MAX, |of| of.left());
        self.total.saturating_sub(self.used()).min(above)
    }

    /// Bytes that are reserved.
    pub(crate) fn used(&self) -> u64 {
        self.pot.used()
    }
}

fn or_all(bytes: u64) -> u64 {
    if bytes == 0 { u64::MAX } else { bytes }
}

fn exhausted(what: &str, bytes: u64, why: &Exhausted) -> Error {
    Error::Exhausted(match why {
        Exhausted::Budget { left, total, .. } => {
            format!("memory budget: {what} needs {bytes} bytes, {left} of {total} are left")
        }
        why => format!("memory budget: {what}: {why}"),
    })
}

/// Bytes of a budget, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation(Charge);

impl Reservation {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Gives back what is more than `bytes`.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let smaller = bytes.min(self.bytes());
        self.0.resize(smaller).expect("less than it has");
    }
}

/// Refuses what is more than a limit of its own; 0 is no limit.
pub(crate) fn within(what: &str, bytes: u64, limit: u64) -> Result<()> {
    if limit == 0 || bytes <= limit {
        return Ok(());
    }
    Err(Error::Exhausted(format!("memory budget: {what} needs {bytes} bytes, {limit} are allowed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_taken_again() {
        let budget = Budget::new(100);
        let first = budget.reserve("a", 60).unwrap();
        let refused = budget.reserve("b", 41).unwrap_err().to_string();
        assert_eq!(refused, "memory budget: b needs 41 bytes, 40 of 100 are left");
        let mut second = budget.reserve("b", 40).unwrap();
        drop(first);
        assert_eq!(budget.used(), second.bytes());
        second.shrink(50);
        assert_eq!(budget.used(), 40);
        second.shrink(30);
        assert_eq!(budget.used(), 30);
        assert!(budget.fits_without(10, 80) && !budget.fits_without(10, 81));
        assert!(budget.reserve("c", 60).is_ok());
    }

    #[test]
    fn what_is_on_a_device_counts_there_and_in_all() {
        let all = Budget::new(100);
        let [first, second] = [Some(60), None].map(|total| all.of_device(total));
        let on_first = first.reserve("a", 50).unwrap();
        let refused = first.reserve("b", 11).unwrap_err().to_string();
        assert_eq!(refused, "memory budget: b needs 11 bytes, 10 of 60 are left");
        let refused = second.reserve("b", 51).unwrap_err().to_string();
        assert_eq!(refused, "memory budget: b needs 51 bytes, 50 of 100 are left");
        let _on_second = second.reserve("b", 45).unwrap();
        assert_eq!((first.used(), second.used(), all.used()), (50, 45, 95));
        assert!(first.fits_without(50, 55) && !first.fits_without(50, 56), "of all");
        drop(on_first);
        assert_eq!((first.used(), all.used()), (0, 45));
    }

    #[test]
    fn no_limit_takes_everything_once() {
        let budget = Budget::new(0);
        let all = budget.reserve("a", u64::MAX).unwrap();
        assert!(budget.reserve("b", 1).is_err());
        drop(all);
        assert_eq!(budget.used(), 0);
        assert!(within("a", u64::MAX, 0).is_ok() && within("a", 2, 1).is_err());
    }
}
