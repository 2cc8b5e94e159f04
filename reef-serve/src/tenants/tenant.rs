//! One principal's grant, and what it has had.

use crate::class::{Class, Priority};
use crate::config::rights::Over;
use crate::error::{Error, Result};
use crate::net::principal::Principal;
use crate::tenants::grant::Grant;
use parking_lot::RwLock;
use reef::Account;
#[cfg(test)]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// One principal's grant, and what it has had.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) who: Principal,
    granted: RwLock<Granted>,
    /// Device time of its best-effort work, in nanoseconds.
    be: AtomicU64,
    /// Real-time requests that became best-effort, or were refused, as its budget was used up.
    demoted: AtomicU64,
    refused: AtomicU64,
}

/// What it may do now.
#[derive(Debug)]
struct Granted {
    grant: Grant,
    over: Over,
    /// What its real-time tasks are charged to.
    account: Account,
    /// What accounts before this one had had: a rate has an account of its own.
    before: (Duration, u64),
}

#[cfg(test)]
impl Tenant {
    /// Somebody who may all.
    pub(crate) fn owner() -> Arc<Self> {
        Self::of(Principal::User(0))
    }

    /// The holder of a token, likewise.
    pub(crate) fn named(token: &str) -> Arc<Self> {
        Self::of(Principal::Token(token.into()))
    }

    fn of(who: Principal) -> Arc<Self> {
        let grant = Grant::from(&crate::config::rights::Right::of_owner());
        Arc::new(Self::new(who, grant, Over::Late))
    }
}

impl Tenant {
    pub(crate) fn new(who: Principal, grant: Grant, over: Over) -> Self {
        let account = Account::new(grant.rate);
        let granted = Granted { grant, over, account, before: Default::default() };
        let (be, demoted, refused) = Default::default();
        Self { who, granted: RwLock::new(granted), be, demoted, refused }
    }

    /// What it may do now.
    pub(crate) fn grant(&self) -> Grant {
        self.granted.read().grant
    }

    /// What its real-time tasks are charged to now.
    pub(crate) fn account(&self) -> Account {
        self.granted.read().account.clone()
    }

    /// Grants it something else, from its next request on. A budget that stays the same keeps what is used of it.
    pub(crate) fn regrant(&self, grant: Grant, over: Over) {
        let mut granted = self.granted.write();
        if granted.grant.rate != grant.rate {
            granted.before = granted.had();
            granted.account = Account::new(grant.rate);
        }
        (granted.grant, granted.over) = (grant, over);
    }

    /// The place of a request that asks for `asked`, or for nothing and has this default.
    ///
    /// # Errors
    ///
    /// `Denied` if it asks for real time and may not.
    pub(crate) fn priority(
        &self,
        asked: u64,
        class: Option<Class>,
        default: Class,
    ) -> Result<Priority> {
        let priority = Priority::new(asked, class.unwrap_or(default));
        if self.grant().rt || priority.class() == Class::BestEffort {
            return Ok(priority);
        }
        if asked == 0 && class.is_none() {
            return Ok(Priority::BEST_EFFORT); // it has not asked
        }
        Err(self.no_real_time())
    }

    fn no_real_time(&self) -> Error {
        let who = &self.who;
        Error::Denied(format!("{who} may not ask for real time: rights.\"{who}\".rt"))
    }

    /// What becomes of a request when its turn comes; `now` on the device's clock.
    ///
    /// # Errors
    ///
    /// `Denied` if it is real-time, which is no longer granted; `Exhausted` if its budget is used up and the
    /// configuration refuses what is over.
    pub(crate) fn admit(&self, priority: Priority, now: Duration) -> Result<Priority> {
        if priority.class() == Class::BestEffort {
            return Ok(priority);
        }
        let granted = self.granted.read();
        if !granted.grant.rt {
            return Err(self.no_real_time());
        }
        let Some(rate) = granted.grant.rate else { return Ok(priority) };
        if granted.account.is_in_budget(now) {
            return Ok(priority);
        }
        match granted.over {
            Over::Late => Ok(priority),
            Over::BestEffort => {
                self.demoted.fetch_add(1, Relaxed);
                Ok(Priority::BEST_EFFORT)
            }
            Over::Refused => {
                self.refused.fetch_add(1, Relaxed);
                let who = &self.who;
                Err(Error::Exhausted(format!("{who} has used its budget of {rate} up")))
            }
        }
    }

    /// Books device time. That of real-time work is booked by its account.
    pub(crate) fn charge(&self, class: Class, time: Duration) {
        if class == Class::BestEffort {
            self.be.fetch_add(time.as_nanos().try_into().unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// Device time that it has had, as [`Class::EACH`].
    pub(crate) fn served(&self) -> [Duration; 2] {
        [self.granted.read().had().0, Duration::from_nanos(self.be.load(Relaxed))]
    }

    /// Real-time requests that were over its budget: late, made best-effort, refused.
    pub(crate) fn over(&self) -> [(&'static str, u64); 3] {
        [
            ("late", self.granted.read().had().1),
            ("best-effort", self.demoted.load(Relaxed)),
            ("refused", self.refused.load(Relaxed)),
        ]
    }
}

impl Granted {
    /// Device time of its real-time work so far, and how many of its tasks were late.
    fn had(&self) -> (Duration, u64) {
        let (usage, (served, late)) = (self.account.usage(), self.before);
        (served + usage.served, late + usage.late)
    }
}
