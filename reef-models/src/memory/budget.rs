//! A number of bytes that may be taken, and its use by readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that readers of files may take. A clone is the same budget.
///
/// ```
/// use reef_models::Budget;
///
/// let all = Budget::new(1000);
/// let one = all.part(600);
/// let charge = one.charge(400)?;
/// assert_eq!((one.used(), all.used()), (400, 400));
/// assert!(one.charge(300).is_err() && all.charge(600).is_ok());
/// drop(charge);
/// assert_eq!(all.used(), 0);
/// # Ok::<(), reef_models::Exhausted>(())
/// ```
#[derive(Debug, Clone)]
pub struct Budget(Arc<State>);

#[derive(Debug)]
struct State {
    total: u64,
    /// At most `total`. Written by the readers that charge or give back.
    used: AtomicU64,
    /// Whose part it is: what is charged here is charged there as well.
    of: Option<Budget>,
}

/// Bytes of a budget, given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    bytes: u64,
}

/// Memory that there was none of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exhausted {
    /// The budget has too little left.
    #[error("{asked} bytes of memory wanted, {left} of {total} are left")]
    Budget {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes that were left.
        left: u64,
        /// Bytes of the whole budget.
        total: u64,
    },
    /// The system gave none, though the budget had it.
    #[error("{asked} bytes of memory wanted, the system has none")]
    System {
        /// Bytes that were asked for.
        asked: u64,
    },
}

impl Budget {
    /// Bytes that readers take at most by default: 2 GiB.
    pub const USUAL: u64 = 2 << 30;

    /// A budget of `bytes`; `u64::MAX` is as many as there are.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(State { total: bytes, used: AtomicU64::new(0), of: None }))
    }

    /// A part of this budget: at most `bytes` of it. All of it is given back when the part's last
    /// clone and its last charge are dropped.
    #[must_use]
    pub fn part(&self, bytes: u64) -> Self {
        let of = Some(self.clone());
        Self(Arc::new(State { total: bytes, used: AtomicU64::new(0), of }))
    }

    /// Bytes that are taken.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Acquire)
    }

    /// Takes `bytes` until the charge is dropped.
    ///
    /// # Errors
    ///
    /// If as many are not left, here or in the budget that this is a part of.
    pub fn charge(&self, bytes: u64) -> Result<Charge, Exhausted> {
        self.take(bytes)?;
        Ok(Charge { budget: self.clone(), bytes })
    }

    /// Takes `bytes` until they are given back or the budget itself is dropped.
    pub(super) fn take(&self, bytes: u64) -> Result<(), Exhausted> {
        let State { total, used, of } = &*self.0;
        let more = |used: u64| used.checked_add(bytes).filter(|sum| sum <= total);
        let taken = used.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.map_err(|used| Exhausted::Budget {
            asked: bytes,
            left: total - used,
            total: *total,
        })?;
        let above = of.as_ref().map_or(Ok(()), |of| of.take(bytes));
        above.inspect_err(|_| {
            used.fetch_sub(bytes, Ordering::AcqRel);
        })
    }

    fn give_back(&self, bytes: u64) {
        self.0.used.fetch_sub(bytes, Ordering::AcqRel);
        if let Some(of) = &self.0.of {
            of.give_back(bytes);
        }
    }
}

impl Default for Budget {
    /// As large as [`USUAL`](Self::USUAL).
    fn default() -> Self {
        Self::new(Self::USUAL)
    }
}

impl Drop for State {
    /// Gives back what was kept.
    fn drop(&mut self) {
        if let Some(of) = &self.of {
            of.give_back(*self.used.get_mut());
        }
    }
}

impl Charge {
    /// Bytes that it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes it `bytes` large.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Budget::charge`]; it stays what it was then.
    pub fn resize(&mut self, bytes: u64) -> Result<(), Exhausted> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.budget.take(more)?,
            None => self.budget.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Leaves the bytes taken until the budget itself is dropped.
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

impl From<Exhausted> for String {
    fn from(why: Exhausted) -> Self {
        why.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_charge_is_given_back_with_the_part() {
        let all = Budget::new(100);
        let part = all.part(80);
        part.charge(50).unwrap().keep();
        let refused = part.charge(31).unwrap_err().to_string();
        assert_eq!(refused, "31 bytes of memory wanted, 30 of 80 are left");
        assert_eq!(all.used(), 50);
        drop(part);
        assert_eq!(all.used(), 0);
    }

    #[test]
    fn charge_refused_by_the_whole_is_not_taken_from_the_part() {
        let all = Budget::new(100);
        let (one, other) = (all.part(80), all.part(80));
        let _held = one.charge(60).unwrap();
        assert!(other.charge(60).is_err());
        assert_eq!((one.used(), other.used(), all.used()), (60, 0, 60));
    }

    #[test]
    fn a_charge_grows_and_shrinks() {
        let all = Budget::new(100);
        let mut charge = all.charge(10).unwrap();
        charge.resize(90).unwrap();
        assert!(charge.resize(101).is_err());
        assert_eq!((charge.bytes(), all.used()), (90, 90));
        charge.resize(20).unwrap();
        assert_eq!(all.used(), 20);
        assert!(all.charge(u64::MAX).is_err());
    }
}
