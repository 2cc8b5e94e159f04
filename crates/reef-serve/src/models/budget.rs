//! Memory budget of models and clients: reservations are refused before anything is allocated.

use crate::error::{Error, Result};
use reef::models::{self, Charge, Exhausted};
use std::sync::Arc;

/// A number of bytes from which reservations are taken.
#[derive(Debug)]
pub(crate) struct Budget {
    budget: models::Budget,
    total: u64,
    /// Budget that it is a part of.
    of: Option<Arc<Budget>>,
}

impl Budget {
    /// Creates a budget of `total` bytes; 0 means no limit.
    pub(crate) fn new(total: u64) -> Arc<Self> {
        let total = or_unlimited(total);
        Arc::new(Self { budget: models::Budget::new(total), total, of: None })
    }

    /// Returns a part of at most `total` bytes for one device; `None` means no limit of its own.
    pub(crate) fn of_device(self: &Arc<Self>, total: Option<u64>) -> Arc<Self> {
        let total = total.unwrap_or(u64::MAX);
        Arc::new(Self { budget: self.budget.part(total), total, of: Some(self.clone()) })
    }

    /// Reserves `bytes` for `what`, until the reservation is dropped.
    ///
    /// # Errors
    ///
    /// `Exhausted`, with the requested and the remaining bytes.
    pub(crate) fn reserve(&self, what: &str, bytes: u64) -> Result<Reservation> {
        let charge = self.budget.charge(bytes).map_err(|why| exhausted(what, bytes, &why))?;
        Ok(Reservation(charge))
    }

    /// Returns a part of at most `bytes` for reading a model's files; 0 means no limit. All of it
    /// is returned when the part is dropped.
    pub(crate) fn part(&self, bytes: u64) -> models::Budget {
        self.budget.part(or_unlimited(bytes))
    }

    /// True if `bytes` fit once `freed` of the reserved bytes have been returned.
    pub(crate) fn fits_without(&self, freed: u64, bytes: u64) -> bool {
        let kept = self.used().saturating_sub(freed);
        let above = self.of.as_ref().is_none_or(|of| of.fits_without(freed, bytes));
        above && kept.saturating_add(bytes) <= self.total
    }

    /// Bytes that can still be reserved.
    pub(crate) fn remaining(&self) -> u64 {
        let above = self.of.as_ref().map_or(u64::MAX, |of| of.remaining());
        self.total.saturating_sub(self.used()).min(above)
    }

    /// Bytes that are reserved.
    pub(crate) fn used(&self) -> u64 {
        self.budget.used()
    }
}

fn or_unlimited(bytes: u64) -> u64 {
    if bytes == 0 { u64::MAX } else { bytes }
}

fn exhausted(what: &str, bytes: u64, why: &Exhausted) -> Error {
    Error::Exhausted(match why {
        Exhausted::Budget { left, total, .. } => {
            format!(
                "memory budget: {what} must have at most the {left} bytes left of {total}, got {bytes}"
            )
        }
        why => format!("memory budget: {what}: {why}"),
    })
}

/// Bytes of a budget, returned when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation(Charge);

impl Reservation {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Returns the bytes above `bytes`.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let smaller = bytes.min(self.bytes());
        self.0.resize(smaller).expect("less than it has");
    }
}

/// Refuses `bytes` above a separate limit; 0 means no limit.
pub(crate) fn within(what: &str, bytes: u64, limit: u64) -> Result<()> {
    if limit == 0 || bytes <= limit {
        return Ok(());
    }
    Err(Error::Exhausted(format!(
        "memory budget: {what} must have at most {limit} bytes, got {bytes}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_reservation_can_be_taken_again() {
        let budget = Budget::new(100);
        let first = budget.reserve("a", 60).unwrap();
        let refused = budget.reserve("b", 41).unwrap_err().to_string();
        assert_eq!(refused, "memory budget: b must have at most the 40 bytes left of 100, got 41");
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
    fn reservation_on_a_device_counts_in_the_total() {
        let all = Budget::new(100);
        let [first, second] = [Some(60), None].map(|total| all.of_device(total));
        let on_first = first.reserve("a", 50).unwrap();
        let refused = first.reserve("b", 11).unwrap_err().to_string();
        assert_eq!(refused, "memory budget: b must have at most the 10 bytes left of 60, got 11");
        let refused = second.reserve("b", 51).unwrap_err().to_string();
        assert_eq!(refused, "memory budget: b must have at most the 50 bytes left of 100, got 51");
        let _on_second = second.reserve("b", 45).unwrap();
        assert_eq!((first.used(), second.used(), all.used()), (50, 45, 95));
        assert!(first.fits_without(50, 55) && !first.fits_without(50, 56), "of all");
        drop(on_first);
        assert_eq!((first.used(), all.used()), (0, 45));
    }

    #[test]
    fn unlimited_budget_reserves_everything_once() {
        let budget = Budget::new(0);
        let all = budget.reserve("a", u64::MAX).unwrap();
        assert!(budget.reserve("b", 1).is_err());
        drop(all);
        assert_eq!(budget.used(), 0);
        assert!(within("a", u64::MAX, 0).is_ok() && within("a", 2, 1).is_err());
    }
}
