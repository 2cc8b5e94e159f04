//! One principal's grant, and what it has had.

use crate::class::{Class, Priority};
use crate::config::rights::Over;
use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use crate::tenants::grant::Grant;
use parking_lot::RwLock;
use reef::{Account, Rate};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A whole device, in the unit in which parts of it are summed: so sums are exact.
pub(super) const WHOLE: u64 = 1_000_000_000_000;

/// One principal's grant, and what it has had.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) who: Principal,
    granted: RwLock<Granted>,
    /// Device time of its best-effort work, in nanoseconds.
    be: AtomicU64,
    /// Time in which its requests were on the device and did not run there, as [`Class::EACH`], in
    /// nanoseconds.
    held: [AtomicU64; 2],
    /// Bytes of instances and shared memory that its clients of the local path have.
    memory: AtomicU64,
    /// Real-time requests that became best-effort, or were refused, as its budget was used up.
    demoted: AtomicU64,
    refused: AtomicU64,
    /// The sum of its clients' claims, in parts of [`WHOLE`].
    claimed: AtomicU64,
    /// Claims that didn't fit.
    unfit: AtomicU64,
}

/// What it may do now.
#[derive(Debug)]
struct Granted {
    grant: Grant,
    over: Over,
    /// What its real-time tasks are charged to, by device: periods go by the clock of one.
    accounts: Box<[Account]>,
    /// What requests are charged to that have no part in its budget, likewise.
    spare: Box<[Account]>,
    /// What other accounts have had: those before this one, as a rate has an account of its own,
    /// and those of claims.
    others: (Duration, u64),
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
        Arc::new(Self::new(who, grant, Over::Late, 2))
    }
}

impl Tenant {
    /// With accounts on so many devices.
    pub(crate) fn new(who: Principal, grant: Grant, over: Over, devices: usize) -> Self {
        let (spare, others) = (accounts(None, devices), Default::default());
        let accounts = accounts(grant.rate, devices);
        let granted = RwLock::new(Granted { grant, over, accounts, spare, others });
        let (be, held, memory, demoted, refused, claimed, unfit) = Default::default();
        Self { who, granted, be, held, memory, demoted, refused, claimed, unfit }
    }

    /// What it may do now.
    pub(crate) fn grant(&self) -> Grant {
        self.granted.read().grant
    }

    /// What its real-time tasks on this device are charged to now.
    pub(crate) fn account(&self, device: usize) -> Account {
        self.granted.read().accounts[device].clone()
    }

    /// What its requests on this device are charged to whose claim didn't fit: they have no budget.
    pub(crate) fn spare(&self, device: usize) -> Account {
        self.granted.read().spare[device].clone()
    }

    /// Books what an account of a claim has had.
    pub(super) fn book(&self, served: Duration, late: u64) {
        let mut granted = self.granted.write();
        granted.others.0 += served;
        granted.others.1 += late;
    }

    /// Notes that one of its clients holds this part of the device from now on, or no longer.
    pub(super) fn note_claim(&self, part: u64, holds: bool) {
        match holds {
            true => self.claimed.fetch_add(part, Relaxed),
            false => self.claimed.fetch_sub(part, Relaxed),
        };
    }

    /// Notes a claim that didn't fit.
    pub(super) fn note_unfit(&self) {
        self.unfit.fetch_add(1, Relaxed);
    }

    /// What of the devices its clients have claimed, each from 0 to 1 and summed, and how often a
    /// claim didn't fit.
    pub(crate) fn claims(&self) -> (f64, u64) {
        (self.claimed.load(Relaxed) as f64 / WHOLE as f64, self.unfit.load(Relaxed))
    }

    /// Grants it something else, from its next request on. A budget that stays the same keeps what
    /// is used of it.
    pub(crate) fn regrant(&self, grant: Grant, over: Over) {
        let mut granted = self.granted.write();
        if granted.grant.rate != grant.rate {
            let (served, late) = granted.had();
            let spare = had(&granted.spare).0; // which stays and is counted by itself
            granted.others = (served.saturating_sub(spare), late);
            granted.accounts = accounts(grant.rate, granted.accounts.len());
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

    /// What becomes of a request that is charged to `account`; `now` on the device's clock.
    ///
    /// # Errors
    ///
    /// `Denied` if it is real-time, which is no longer granted; `Exhausted` if its budget is used
    /// up and the configuration refuses what is over.
    pub(crate) fn admit(
        &self,
        priority: Priority,
        account: &Account,
        now: Duration,
    ) -> Result<Priority> {
        if priority.class() == Class::BestEffort {
            return Ok(priority);
        }
        let granted = self.granted.read();
        if !granted.grant.rt {
            return Err(self.no_real_time());
        }
        let Some(rate) = account.rate() else { return Ok(priority) };
        if account.is_in_budget(now) {
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

    /// Books a request that ran for `ran` of the `time` between its submission and its end. The
    /// device time of real-time work is booked by its account.
    pub(crate) fn charge(&self, class: Class, ran: Duration, time: Duration) {
        if class == Class::BestEffort {
            self.be.fetch_add(nanos(ran), Relaxed);
        }
        self.held[class as usize].fetch_add(nanos(time.saturating_sub(ran)), Relaxed);
    }

    /// How long its requests were held on the device or waited for others there, as
    /// [`Class::EACH`].
    pub(crate) fn held(&self) -> [Duration; 2] {
        self.held.each_ref().map(|held| Duration::from_nanos(held.load(Relaxed)))
    }

    /// Notes memory that one of its clients takes, until the answer is dropped; at most `max` bytes
    /// of all.
    ///
    /// # Errors
    ///
    /// `Exhausted`.
    pub(crate) fn take_memory(self: &Arc<Self>, bytes: u64, max: u64) -> Result<MemoryTaken> {
        let more = |has: u64| has.checked_add(bytes).filter(|sum| *sum <= max);
        match self.memory.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => Ok(MemoryTaken { tenant: self.clone(), bytes }),
            Err(has) => Err(Error::Exhausted(format!(
                "{} has {has} bytes on the device, {bytes} more are asked for and {max} allowed",
                self.who
            ))),
        }
    }

    /// What its clients of the local path have taken, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.load(Relaxed)
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

/// Memory of one client, which counts until this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryTaken {
    tenant: Arc<Tenant>,
    bytes: u64,
}

impl MemoryTaken {
    /// Makes it `bytes`; what is more has to be within `max` with all that the tenant has.
    ///
    /// # Errors
    ///
    /// As [`Tenant::take_memory`]; it is as it was then.
    pub(crate) fn resize(&mut self, bytes: u64, max: u64) -> Result<()> {
        if bytes > self.bytes {
            let mut more = self.tenant.take_memory(bytes - self.bytes, max)?;
            more.bytes = 0; // it is this one's now
        } else {
            self.tenant.memory.fetch_sub(self.bytes - bytes, Relaxed);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for MemoryTaken {
    fn drop(&mut self) {
        self.tenant.memory.fetch_sub(self.bytes, Relaxed);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Granted {
    /// Device time of its real-time work so far, and how many of its tasks were late.
    fn had(&self) -> (Duration, u64) {
        let ((own, own_late), (served, late)) = (had(&self.accounts), self.others);
        (served + own + had(&self.spare).0, late + own_late)
    }
}

/// Whole budgets, one for each device.
fn accounts(rate: Option<Rate>, devices: usize) -> Box<[Account]> {
    (0..devices).map(|_| Account::new(rate)).collect()
}

/// Device time that these have had, and how many of their tasks were late.
fn had(accounts: &[Account]) -> (Duration, u64) {
    let usages = accounts.iter().map(Account::usage);
    usages.fold(Default::default(), |(served, late), usage| {
        (served + usage.served, late + usage.late)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_counts_until_it_is_given_back_and_has_an_end() {
        let tenant = Tenant::owner();
        let first = tenant.take_memory(30, 40).unwrap();
        let said = tenant.take_memory(11, 40).unwrap_err().to_string();
        assert_eq!(said, "user 0 has 30 bytes on the device, 11 more are asked for and 40 allowed");
        assert!(tenant.take_memory(u64::MAX, u64::MAX).is_err());
        let _second = tenant.take_memory(10, 40).unwrap();
        drop(first);
        assert_eq!(tenant.memory(), 10);
    }

    #[test]
    fn a_budget_that_stays_the_same_keeps_what_is_used() {
        let (tenant, over) = (Tenant::owner(), Over::Late);
        let account = tenant.account(0);
        let other = Grant { weight: 7, ..tenant.grant() };
        tenant.regrant(other, over);
        tenant.charge(Class::BestEffort, Duration::from_secs(1), Duration::from_secs(3));
        assert_eq!((tenant.grant(), tenant.served()[1]), (other, Duration::from_secs(1)));
        assert_eq!(tenant.held(), [Duration::ZERO, Duration::from_secs(2)]);
        let same = |a: &Account, b: &Account| format!("{a:?}") == format!("{b:?}");
        assert!(same(&account, &tenant.account(0)));
        let rate = reef::Rate::new(Duration::from_millis(10), Duration::from_millis(2)).unwrap();
        tenant.regrant(Grant { rate: Some(rate), ..other }, over);
        assert!(!same(&account, &tenant.account(0)), "another budget begins whole");
        tenant.regrant(Grant { rt: false, ..other }, over);
        let asks = Priority::new(1, Class::RealTime);
        assert!(tenant.admit(asks, &tenant.account(0), Duration::ZERO).is_err());
    }
}
