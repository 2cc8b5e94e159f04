//! How fast one principal may connect: looked at before a connection gets anything.
//!
//! Each has `per_second` connections in store, which come again at that rate (the generic cell rate
//! algorithm, as ATM has it: one time for each principal). What is over is closed at once.

use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// In what time the store is full again.
const FULL: Duration = Duration::from_secs(1);

/// Principals whose connections are counted one by one; more than these share what one may have.
const MOST: usize = 4096;

/// The pace of all who connect.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: u32,
    /// Until when each has used its connections up; past for who has all of them.
    used: Mutex<HashMap<Option<Principal>, Instant>>,
}

impl Pace {
    /// `per_second` connections of each; 0 is no limit.
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second, used: Mutex::default() }
    }

    /// Lets one more of `who` in.
    ///
    /// # Errors
    ///
    /// `Exhausted` if it has connected too often within the last second.
    pub(crate) fn check(&self, who: &Principal, now: Instant) -> Result<()> {
        if self.per_second == 0 {
            return Ok(());
        }
        let mut used = self.used.lock();
        if used.len() >= MOST && !used.contains_key(&Some(who.clone())) {
            used.retain(|_, until| *until > now);
        }
        let key = (used.len() < MOST).then(|| who.clone());
        let until = used.entry(key).or_insert(now);
        let next = (*until).max(now) + FULL / self.per_second;
        if next > now + FULL {
            let most = self.per_second;
            return Err(Error::Exhausted(format!("{who} has made {most} connections in a second")));
        }
        *until = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_connections_and_gets_them_again() {
        let (pace, now) = (Pace::new(10), Instant::now());
        let enters = |who: u32, at: Duration| pace.check(&Principal::User(who), now + at).is_ok();
        let count = |who, at| (0..100).filter(|_| enters(who, at)).count();
        assert_eq!(count(1, Duration::ZERO), 10);
        assert_eq!(count(2, Duration::ZERO), 10, "another has its own");
        assert_eq!(count(1, Duration::from_millis(350)), 3);
        assert_eq!(count(1, Duration::from_secs(9)), 10, "and no more");
        let free = Pace::new(0);
        assert!((0..100).all(|_| free.check(&Principal::User(1), now).is_ok()));
    }

    #[test]
    fn there_are_only_so_many_to_remember() {
        let (pace, now) = (Pace::new(2), Instant::now());
        let enters = |who| pace.check(&Principal::User(who), now).is_ok();
        (0..MOST as u32).for_each(|who| assert!(enters(who)));
        let late = (0..100).filter(|who| enters(MOST as u32 + who)).count();
        assert!(late <= 2, "{late} strangers share what one may have");
        assert!(pace.used.lock().len() <= MOST + 1);
        let later = now + FULL;
        assert!(pace.check(&Principal::User(5), later).is_ok());
    }
}
