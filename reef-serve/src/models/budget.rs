//! How much memory models and clients may take; refused before anything is allocated.

use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// A pot of bytes that reservations are taken from.
#[derive(Debug)]
pub(crate) struct Budget {
    total: u64,
    used: Mutex<u64>,
}

impl Budget {
    /// A pot of `total` bytes; 0 is as many as there are.
    pub(crate) fn new(total: u64) -> Arc<Self> {
        let total = if total == 0 { u64::MAX } else { total };
        Arc::new(Self { total, used: Mutex::new(0) })
    }

    /// Takes `bytes` for `what`, until the reservation is dropped.
    ///
    /// # Errors
    ///
    /// `Exhausted`, with what was asked and what is left.
    pub(crate) fn reserve(self: &Arc<Self>, what: &str, bytes: u64) -> Result<Reservation> {
        let mut used = self.used.lock();
        let left = self.total - *used;
        if bytes > left {
            return Err(Error::Exhausted(format!(
                "memory budget: {what} needs {bytes} bytes, {left} of {} are left",
                self.total
            )));
        }
        *used += bytes;
        Ok(Reservation { budget: self.clone(), bytes })
    }

    /// Bytes that are reserved.
    pub(crate) fn used(&self) -> u64 {
        *self.used.lock()
    }
}

/// Bytes of a budget, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Reservation {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        *self.budget.used.lock() -= self.bytes;
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
        let second = budget.reserve("b", 40).unwrap();
        drop(first);
        assert_eq!(budget.used(), second.bytes());
        assert!(budget.reserve("c", 60).is_ok());
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
