//! Something that there is only so much of, shared out: nobody takes what is kept for others.
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

/// Whom a share is for.
pub(crate) trait Holder: Clone + Eq + Hash + Display + Debug {}
impl<T: Clone + Eq + Hash + Display + Debug> Holder for T {}

/// What there is, and who has taken how much of it.
#[derive(Debug)]
pub(crate) struct Shares<K: Holder> {
    what: &'static str,
    max: u64,
    each: u64,
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    all: u64,
    /// No entry is 0.
    of: HashMap<K, u64>,
}

impl<K: Holder> Shares<K> {
    /// `max` of it, and for one holder at most `each`. `what` it is, in the plural.
    pub(crate) fn new(what: &'static str, max: u64, each: u64) -> Arc<Self> {
        Arc::new(Self { what, max, each, taken: Mutex::new(Taken { all: 0, of: HashMap::new() }) })
    }

    /// Takes `amount` for `who`, until the share is dropped.
    ///
    /// # Errors
    ///
    /// `Exhausted`, with who has how much.
    pub(crate) fn take(self: &Arc<Self>, who: K, amount: u64) -> Result<Share<K>> {
        let mut share = Share { shares: self.clone(), who, amount: 0 };
        share.grow(amount)?;
        Ok(share)
    }

    /// What all have taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.lock().all
    }

    fn add(&self, who: &K, amount: u64) -> Result<()> {
        let mut taken = self.taken.lock();
        let has = taken.of.get(who).copied().unwrap_or(0);
        if amount > self.each.saturating_sub(has) {
            let Self { what, each, .. } = self;
            let text =
                format!("{who} has {has} {what}, {amount} more are asked for and {each} allowed");
            return Err(Error::Exhausted(text));
        }
        if amount > self.max.saturating_sub(taken.all) {
            let Self { what, max, .. } = self;
            let text =
                format!("{} of {max} {what} are taken, {amount} more are asked for", taken.all);
            return Err(Error::Exhausted(text));
        }
        taken.all += amount;
        if amount > 0 {
            *taken.of.entry(who.clone()).or_default() += amount;
        }
        Ok(())
    }

    fn remove(&self, who: &K, amount: u64) {
        let mut taken = self.taken.lock();
        taken.all -= amount;
        let Some(has) = taken.of.get_mut(who) else { return };
        *has -= amount;
        if *has == 0 {
            taken.of.remove(who);
        }
    }
}

/// What one holder has taken at a time, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share<K: Holder> {
    shares: Arc<Shares<K>>,
    who: K,
    amount: u64,
}

impl<K: Holder> Share<K> {
    /// Takes more.
    ///
    /// # Errors
    ///
    /// As [`Shares::take`]; it has what it had then.
    pub(crate) fn grow(&mut self, by: u64) -> Result<()> {
        self.shares.add(&self.who, by)?;
        self.amount += by;
        Ok(())
    }

    /// Gives some of it back, at most what it has.
    pub(crate) fn shrink(&mut self, by: u64) {
        let by = by.min(self.amount);
        self.amount -= by;
        self.shares.remove(&self.who, by);
    }

    /// Gives everything back.
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
    fn nobody_takes_what_is_kept_for_others() {
        let shares = Shares::new("places", 4, 3);
        let _a = shares.take("a", 2).unwrap();
        let mut more = shares.take("a", 1).unwrap();
        let said = more.grow(1).unwrap_err().to_string();
        assert_eq!(said, "a has 3 places, 1 more are asked for and 3 allowed");
        let b = shares.take("b", 1).unwrap();
        let said = shares.take("c", 1).unwrap_err().to_string();
        assert_eq!(said, "4 of 4 places are taken, 1 more are asked for");
        more.clear();
        drop(b);
        assert_eq!((shares.taken(), shares.taken.lock().of.len()), (2, 1));
        shares.take("c", 2).unwrap();
        assert!(shares.take("c", u64::MAX).is_err());
    }
}
