//! Rights and usage of one principal.

use crate::class::{Class, Priority};
use crate::config::rights::OverBudget;
use crate::error::{Error, Result};
use crate::net::identity::principal::{OTHERS, Principal};
use crate::net::quota::shares::{Share, Shares};
use crate::tenants::grant::Grant;
use parking_lot::RwLock;
use reef::{Account, Rate};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A whole device, in the unit of parts: so sums are exact.
pub(super) const WHOLE: u64 = 1_000_000_000_000;

/// Rights and usage of one principal.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) principal: Principal,
    granted: RwLock<GrantState>,
    /// Device time of its best-effort work, in nanoseconds.
    be: AtomicU64,
    /// Time during which its requests were on the device without running, for each of
    /// [`Class::ALL`], in nanoseconds.
    held: [AtomicU64; 2],
    /// Bytes of instances and shared memory of its clients of the local path.
    memory: AtomicU64,
    /// Memory of all tenants other than the owner, if it is one.
    others: Option<Arc<Shares<&'static str>>>,
    /// Real-time requests that ran as best-effort, or were refused, because its budget was used up.
    demoted: AtomicU64,
    refused: AtomicU64,
    /// Sum of its clients' claims, in parts of [`WHOLE`].
    claimed: AtomicU64,
    /// Claims that did not fit.
    unfit: AtomicU64,
}

/// Current rights and accounts.
#[derive(Debug)]
struct GrantState {
    grant: Grant,
    over: OverBudget,
    /// Accounts of its real-time tasks, by device, because periods follow the clock of one device.
    accounts: Box<[Account]>,
    /// Accounts of requests without a part in its budget, by device.
    spare: Box<[Account]>,
    /// Usage and late tasks of other accounts: those before this one, because each rate has an
    /// account of its own, and those of claims.
    others: (Duration, u64),
}

#[cfg(test)]
impl Tenant {
    /// Returns a tenant with all rights.
    pub(crate) fn owner() -> Arc<Self> {
        Self::of(Principal::User(0))
    }

    /// Returns the holder of a token, with all rights.
    pub(crate) fn named(token: &str) -> Arc<Self> {
        Self::of(Principal::Token(token.into()))
    }

    fn of(principal: Principal) -> Arc<Self> {
        let grant = Grant::from(&crate::config::rights::Right::of_owner());
        Arc::new(Self::new(principal, grant, OverBudget::Late, 2))
    }
}

impl Tenant {
    /// Creates a tenant with accounts on `devices` devices.
    pub(crate) fn new(
        principal: Principal,
        grant: Grant,
        over: OverBudget,
        devices: usize,
    ) -> Self {
        let (spare, others) = (accounts(None, devices), Default::default());
        let accounts = accounts(grant.rate, devices);
        let granted = RwLock::new(GrantState { grant, over, accounts, spare, others });
        let (be, held, memory, demoted, refused, claimed, unfit) = Default::default();
        let others = None;
        Self { principal, granted, be, held, memory, others, demoted, refused, claimed, unfit }
    }

    /// Has its memory count in that of all tenants other than the owner, unless it is the owner.
    pub(super) fn among(self, others: &Arc<Shares<&'static str>>) -> Self {
        let others = (!self.principal.is_owner()).then(|| others.clone());
        Self { others, ..self }
    }

    /// Returns its current rights.
    pub(crate) fn grant(&self) -> Grant {
        self.granted.read().grant
    }

    /// Returns the account of its real-time tasks on this device.
    pub(crate) fn account(&self, device: usize) -> Account {
        self.granted.read().accounts[device].clone()
    }

    /// Returns the account on this device of requests whose claim did not fit: it has no budget.
    pub(crate) fn spare(&self, device: usize) -> Account {
        self.granted.read().spare[device].clone()
    }

    /// Adds the usage of a claim's account.
    pub(super) fn add_usage(&self, served: Duration, late: u64) {
        let mut granted = self.granted.write();
        granted.others.0 += served;
        granted.others.1 += late;
    }

    /// Notes that one of its clients has claimed this part of the device, or has released it.
    pub(super) fn note_claim(&self, part: u64, holds: bool) {
        if holds {
            self.claimed.fetch_add(part, Relaxed);
        } else {
            self.claimed.fetch_sub(part, Relaxed);
        }
    }

    /// Notes a claim that did not fit.
    pub(super) fn note_unfit(&self) {
        self.unfit.fetch_add(1, Relaxed);
    }

    /// Returns the sum of its clients' claims, each from 0 to 1, and the number of claims that did
    /// not fit.
    pub(crate) fn claims(&self) -> (f64, u64) {
        (self.claimed.load(Relaxed) as f64 / WHOLE as f64, self.unfit.load(Relaxed))
    }

    /// Changes its rights, from its next request on. An unchanged budget keeps its usage.
    pub(crate) fn regrant(&self, grant: Grant, over: OverBudget) {
        let mut granted = self.granted.write();
        if granted.grant.rate != grant.rate {
            let (served, late) = granted.usage();
            let spare = usage(&granted.spare).0; // which stays and is counted separately
            granted.others = (served.saturating_sub(spare), late);
            granted.accounts = accounts(grant.rate, granted.accounts.len());
        }
        (granted.grant, granted.over) = (grant, over);
    }

    /// Returns the priority of a request that asks for `asked`; 0 selects the default.
    ///
    /// # Errors
    ///
    /// `Denied` if it asks for real time without the right.
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
            return Ok(Priority::BEST_EFFORT); // it has not asked for a class
        }
        Err(self.no_real_time())
    }

    fn no_real_time(&self) -> Error {
        let (principal, key) = (&self.principal, &self.principal.keys()[0]);
        Error::Denied(format!("{principal} may not use real time: rights.\"{key}\".rt"))
    }

    /// Decides about a request that is charged to `account`; `now` is the time of the device's
    /// clock. Unless `may_demote`, it is refused where the configuration would run it as
    /// best-effort.
    ///
    /// # Errors
    ///
    /// `Denied` if it is real-time and that right was withdrawn; `Exhausted` if its budget is used
    /// up and the configuration refuses such requests.
    pub(crate) fn admit(
        &self,
        priority: Priority,
        account: &Account,
        now: Duration,
        may_demote: bool,
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
            OverBudget::Late => Ok(priority),
            OverBudget::BestEffort if may_demote => {
                self.demoted.fetch_add(1, Relaxed);
                Ok(Priority::BEST_EFFORT)
            }
            OverBudget::BestEffort | OverBudget::Refused => {
                self.refused.fetch_add(1, Relaxed);
                let principal = &self.principal;
                Err(Error::Exhausted(format!("{principal} has used up its budget of {rate}")))
            }
        }
    }

    /// Adds a request that ran for `ran` of the `time` between its submission and its end. Device
    /// time of real-time work is added by its account.
    pub(crate) fn charge(&self, class: Class, ran: Duration, time: Duration) {
        if class == Class::BestEffort {
            self.be.fetch_add(nanos(ran), Relaxed);
        }
        self.held[class as usize].fetch_add(nanos(time.saturating_sub(ran)), Relaxed);
    }

    /// Time during which its requests were preempted or waited on the device, for each of
    /// [`Class::ALL`].
    pub(crate) fn held(&self) -> [Duration; 2] {
        self.held.each_ref().map(|held| Duration::from_nanos(held.load(Relaxed)))
    }

    /// Reserves memory for one of its clients until the reservation is dropped; at most `max` bytes
    /// in all.
    ///
    /// # Errors
    ///
    /// `Exhausted`, also if all tenants other than the owner have their part.
    pub(crate) fn take_memory(self: &Arc<Self>, bytes: u64, max: u64) -> Result<MemoryReservation> {
        let more = |has: u64| has.checked_add(bytes).filter(|sum| *sum <= max);
        match self.memory.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => {
                let mut made = MemoryReservation { tenant: self.clone(), bytes, others: None };
                let others = self.others.as_ref().map(|others| others.take(OTHERS, bytes));
                made.others = others.transpose()?; // or it is returned
                Ok(made)
            }
            Err(has) => Err(Error::Exhausted(format!(
                "bytes on the device of {} must be at most {max}, got {has} + {bytes}",
                self.principal
            ))),
        }
    }

    /// True if `bytes` more fit in the memory of all tenants other than the owner once `freed` of
    /// it has been returned, or if this is the owner.
    pub(crate) fn fits_among_others(&self, freed: u64, bytes: u64) -> bool {
        self.others.as_ref().is_none_or(|others| others.fits_without(freed, bytes))
    }

    /// Bytes that its clients of the local path have reserved.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.load(Relaxed)
    }

    /// Device time of its requests, for each of [`Class::ALL`].
    pub(crate) fn served(&self) -> [Duration; 2] {
        [self.granted.read().usage().0, Duration::from_nanos(self.be.load(Relaxed))]
    }

    /// Real-time requests above its budget: late, made best-effort, refused.
    pub(crate) fn over(&self) -> [(&'static str, u64); 3] {
        [
            ("late", self.granted.read().usage().1),
            ("best-effort", self.demoted.load(Relaxed)),
            ("refused", self.refused.load(Relaxed)),
        ]
    }
}

/// Memory of one client, reserved until this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    tenant: Arc<Tenant>,
    bytes: u64,
    /// These bytes in the memory of all tenants other than the owner, if it is of one.
    others: Option<Share<&'static str>>,
}

impl MemoryReservation {
    /// Changes it to `bytes`; growth must stay within `max` together with all that the tenant has.
    ///
    /// # Errors
    ///
    /// Errors of [`Tenant::take_memory`]; it is unchanged then.
    pub(crate) fn resize(&mut self, bytes: u64, max: u64) -> Result<()> {
        if bytes > self.bytes {
            let mut more = self.tenant.take_memory(bytes - self.bytes, max)?;
            more.bytes = 0; // now part of this reservation
            self.others.iter_mut().zip(more.others.take()).for_each(|(own, more)| own.merge(more));
        } else {
            self.tenant.memory.fetch_sub(self.bytes - bytes, Relaxed);
            self.others.iter_mut().for_each(|others| others.shrink(self.bytes - bytes));
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.tenant.memory.fetch_sub(self.bytes, Relaxed);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl GrantState {
    /// Returns the device time of its real-time work so far, and the number of late tasks.
    fn usage(&self) -> (Duration, u64) {
        let ((own, own_late), (served, late)) = (usage(&self.accounts), self.others);
        (served + own + usage(&self.spare).0, late + own_late)
    }
}

/// Returns whole budgets, one for each device.
fn accounts(rate: Option<Rate>, devices: usize) -> Box<[Account]> {
    (0..devices).map(|_| Account::new(rate)).collect()
}

/// Returns the device time and the number of late tasks of these accounts.
fn usage(accounts: &[Account]) -> (Duration, u64) {
    let usages = accounts.iter().map(Account::usage);
    usages.fold(Default::default(), |(served, late), usage| {
        (served + usage.served, late + usage.late)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_reservation_is_bounded_and_returned_on_drop() {
        let tenant = Tenant::owner();
        let first = tenant.take_memory(30, 40).unwrap();
        let said = tenant.take_memory(11, 40).unwrap_err().to_string();
        assert_eq!(said, "bytes on the device of user 0 must be at most 40, got 30 + 11");
        assert!(tenant.take_memory(u64::MAX, u64::MAX).is_err());
        let _second = tenant.take_memory(10, 40).unwrap();
        drop(first);
        assert_eq!(tenant.memory(), 10);
    }

    #[test]
    fn tenants_leave_memory_to_the_owner() {
        let others = Shares::new("bytes on the device", u64::MAX, 70);
        let tenant = |principal| {
            let grant = Grant::from(&crate::config::rights::Right::of_owner());
            Arc::new(Tenant::new(principal, grant, OverBudget::Late, 1).among(&others))
        };
        let [a, b] = ["a", "b"].map(|name| tenant(Principal::Token(name.into())));
        let mut first = a.take_memory(30, 40).unwrap();
        let second = b.take_memory(30, 40).unwrap();
        let said = b.take_memory(11, 50).unwrap_err().to_string();
        let want =
            "bytes on the device of all clients but the owner must be at most 70, got 60 + 11";
        assert_eq!((&*said, b.memory()), (want, 30));
        assert!(b.fits_among_others(1, 11) && !b.fits_among_others(0, 11));
        let owner = tenant(Principal::User(rustix::process::getuid().as_raw()));
        let _own = owner.take_memory(1000, u64::MAX).unwrap();
        first.resize(40, 40).unwrap();
        assert_eq!((a.memory(), others.taken()), (40, 70));
        first.resize(5, 40).unwrap();
        assert_eq!((a.memory(), others.taken()), (5, 35));
        drop((first, second));
        assert_eq!((a.memory(), b.memory(), others.taken()), (0, 0, 0));
    }

    #[test]
    fn unchanged_budget_keeps_its_usage() {
        let (tenant, over) = (Tenant::owner(), OverBudget::Late);
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
        assert!(tenant.admit(asks, &tenant.account(0), Duration::ZERO, true).is_err());
    }
}
