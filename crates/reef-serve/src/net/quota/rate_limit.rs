//! Rate limit for new connections of one principal, checked before anything else.
//!
//! Each principal may make `per_second` connections at once, and regains them at that rate. It is
//! the generic cell rate algorithm of ATM: one time for each principal. A connection above the
//! limit is closed at once.

use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Period after which an unused limit is full again.
const PERIOD: Duration = Duration::from_secs(1);

/// Maximum number of principals that are counted separately; all others share one limit.
const MAX_PRINCIPALS: usize = 4096;

/// Rate limit for all principals.
#[derive(Debug)]
pub(crate) struct RateLimit {
    per_second: u32,
    /// Time at which each principal has regained all of its connections.
    used: Mutex<HashMap<Option<Principal>, Instant>>,
}

impl RateLimit {
    /// Allows `per_second` connections of each principal; 0 means no limit.
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second, used: Mutex::default() }
    }

    /// Admits one more connection of `principal`.
    ///
    /// # Errors
    ///
    /// `Exhausted` if it has made too many connections within the last second.
    pub(crate) fn check(&self, principal: &Principal, now: Instant) -> Result<()> {
        if self.per_second == 0 {
            return Ok(());
        }
        let mut used = self.used.lock();
        let mut key = Some(principal.clone());
        if used.len() >= MAX_PRINCIPALS && !used.contains_key(&key) {
            used.retain(|_, until| *until > now);
            key = key.filter(|_| used.len() < MAX_PRINCIPALS);
        }
        let until = used.entry(key).or_insert(now);
        let next = (*until).max(now) + PERIOD / self.per_second;
        if next > now + PERIOD {
            let max = self.per_second;
            let text = format!("connections of {principal} must be at most {max} per second");
            return Err(Error::Exhausted(text));
        }
        *until = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limit_refuses_and_refills_per_principal() {
        let (limit, now) = (RateLimit::new(10), Instant::now());
        let enters = |principal: u32, at: Duration| {
            limit.check(&Principal::User(principal), now + at).is_ok()
        };
        let count = |principal, at| (0..100).filter(|_| enters(principal, at)).count();
        assert_eq!(count(1, Duration::ZERO), 10);
        assert_eq!(count(2, Duration::ZERO), 10, "another has its own");
        assert_eq!(count(1, Duration::from_millis(350)), 3);
        assert_eq!(count(1, Duration::from_secs(9)), 10, "and no more");
        let free = RateLimit::new(0);
        assert!((0..100).all(|_| free.check(&Principal::User(1), now).is_ok()));
    }

    #[test]
    fn principals_above_the_maximum_share_one_limit() {
        let (limit, now) = (RateLimit::new(2), Instant::now());
        let enters = |principal| limit.check(&Principal::User(principal), now).is_ok();
        (0..MAX_PRINCIPALS as u32).for_each(|principal| assert!(enters(principal)));
        let late = (0..100).filter(|principal| enters(MAX_PRINCIPALS as u32 + principal)).count();
        assert!(late <= 2, "{late} outsiders share what one may have");
        assert!(limit.used.lock().len() <= MAX_PRINCIPALS + 1);
        let later = now + PERIOD;
        for known in 0..10 {
            for _ in 0..2 {
                let said = limit.check(&Principal::User(known), later);
                assert_eq!(said, Ok(()), "it keeps its own limit");
            }
        }
    }
}
