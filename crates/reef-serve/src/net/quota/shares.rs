//! A bounded resource, with a quota for each holder.
//!
//! ```text
//! taken by one ≤ each,    taken by all ≤ max
//! ```
//!
//! Connections, open requests and bytes are shared among principals, and bytes among connections.

use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Arc;

/// Holder of a share.
pub(crate) trait Holder: Clone + Eq + Hash + Display + Debug {}
impl<T: Clone + Eq + Hash + Display + Debug> Holder for T {}

/// A bounded resource, and the use of each holder.
#[derive(Debug)]
pub(crate) struct Shares<K: Holder> {
    what: &'static str,
    max: u64,
    each: u64,
    taken: Mutex<Use<K>>,
}

#[derive(Debug)]
struct Use<K> {
    all: u64,
    /// No entry is 0.
    of: HashMap<K, u64>,
}

impl<K: Holder> Shares<K> {
    /// Allows `max` of it in all and `each` for one holder. `what` is its name, in the plural.
    pub(crate) fn new(what: &'static str, max: u64, each: u64) -> Arc<Self> {
        Arc::new(Self { what, max, each, taken: Mutex::new(Use { all: 0, of: HashMap::new() }) })
    }

    /// Takes `amount` for `holder`, until the share is dropped.
    ///
    /// # Errors
    ///
    /// `Exhausted`, with the limit and the use.
    pub(crate) fn take(self: &Arc<Self>, holder: K, amount: u64) -> Result<Share<K>> {
        let mut share = Share { shares: self.clone(), holder, amount: 0 };
        share.grow(amount)?;
        Ok(share)
    }

    /// Sum of all shares.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.lock().all
    }

    /// True if one holder, which has all of it, could take `amount` once `freed` of it has been
    /// returned.
    pub(crate) fn fits_without(&self, freed: u64, amount: u64) -> bool {
        self.taken().saturating_sub(freed).saturating_add(amount) <= self.each.min(self.max)
    }

    fn add(&self, holder: &K, amount: u64) -> Result<()> {
        let mut taken = self.taken.lock();
        let has = taken.of.get(holder).copied().unwrap_or(0);
        if amount > self.each.saturating_sub(has) {
            let Self { what, each, .. } = self;
            let text = format!("{what} of {holder} must be at most {each}, got {has} + {amount}");
            return Err(Error::Exhausted(text));
        }
        if amount > self.max.saturating_sub(taken.all) {
            let Self { what, max, .. } = self;
            let text = format!(
                "{what} of all clients must be at most {max}, got {} + {amount}",
                taken.all
            );
            return Err(Error::Exhausted(text));
        }
        taken.all += amount;
        if amount > 0 {
            *taken.of.entry(holder.clone()).or_default() += amount;
        }
        Ok(())
    }

    fn remove(&self, holder: &K, amount: u64) {
        let mut taken = self.taken.lock();
        taken.all -= amount;
        let Some(has) = taken.of.get_mut(holder) else { return };
        *has -= amount;
        if *has == 0 {
            taken.of.remove(holder);
        }
    }
}

/// Share of one holder, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Share<K: Holder> {
    shares: Arc<Shares<K>>,
    holder: K,
    amount: u64,
}

impl<K: Holder> Share<K> {
    /// Takes more.
    ///
    /// # Errors
    ///
    /// Errors of [`Shares::take`]; the share is unchanged then.
    pub(crate) fn grow(&mut self, by: u64) -> Result<()> {
        self.shares.add(&self.holder, by)?;
        self.amount += by;
        Ok(())
    }

    /// Takes over another share of the same holder.
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.amount += std::mem::take(&mut other.amount);
    }

    /// Returns some of it, at most all of it.
    pub(crate) fn shrink(&mut self, by: u64) {
        let by = by.min(self.amount);
        self.amount -= by;
        self.shares.remove(&self.holder, by);
    }

    /// Returns all of it.
    pub(crate) fn clear(&mut self) {
        self.shrink(self.amount);
    }
}

impl<K: Holder> Drop for Share<K> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_above_quota_is_refused() {
        let shares = Shares::new("places", 4, 3);
        let _a = shares.take("a", 2).unwrap();
        let mut more = shares.take("a", 1).unwrap();
        let said = more.grow(1).unwrap_err().to_string();
        assert_eq!(said, "places of a must be at most 3, got 3 + 1");
        let b = shares.take("b", 1).unwrap();
        let said = shares.take("c", 1).unwrap_err().to_string();
        assert_eq!(said, "places of all clients must be at most 4, got 4 + 1");
        let mut merged = shares.take("b", 0).unwrap();
        merged.merge(b);
        more.clear();
        assert_eq!(shares.taken(), 3, "it is taken once");
        drop(merged);
        assert_eq!((shares.taken(), shares.taken.lock().of.len()), (2, 1));
        shares.take("c", 2).unwrap();
        assert!(shares.take("c", u64::MAX).is_err());
    }
}
