//! Tenants by principal.

use crate::class::{Class, Priority};
use crate::config::limits::Limits;
use crate::config::rights::{OverBudget, Rights};
use crate::config::settings::Config;
use crate::error::{Error, Result};
use crate::net::identity::peer::Life;
use crate::net::identity::principal::{OTHERS, Principal};
use crate::net::quota::shares::{Share, Shares};
use crate::tenants::claims::Claims;
use crate::tenants::grant::Grant;
use crate::tenants::tenant::Tenant;
use parking_lot::{Mutex, RwLock};
use reef::{Account, Rate};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of principals. Further addresses share one tenant until another one is forgotten.
const MAX_TENANTS: usize = 1024;

/// Tenants by principal.
#[derive(Debug)]
pub(crate) struct Tenants {
    rules: RwLock<Rules>,
    /// One for each device.
    claims: Box<[Claims]>,
    /// Memory of all tenants other than the owner.
    others: Arc<Shares<&'static str>>,
    known: Mutex<BTreeMap<Principal, Arc<Tenant>>>,
}

/// Rules of the configuration for rights.
#[derive(Debug)]
struct Rules {
    rights: Rights,
    over: OverBudget,
    unfit: OverBudget,
}

impl Rules {
    fn of(config: &Config) -> Self {
        Self { rights: config.rights.clone(), over: config.rt.over, unfit: config.rt.unfit }
    }
}

impl Tenants {
    /// Creates the tenants of a daemon with `devices` devices.
    pub(crate) fn new(config: &Config, devices: usize) -> Self {
        let rules = RwLock::new(Rules::of(config));
        let claims = (0..devices).map(|_| Claims::new(config)).collect();
        let memory = match config.memory.total_mib << 20 {
            0 => u64::MAX,
            all => Limits::of_others(all),
        };
        let others = Shares::new("bytes of the memory budget", u64::MAX, memory);
        Self { rules, claims, others, known: Mutex::default() }
    }

    /// Admits the rate that a request, or a connection for all of its requests, states. Returns
    /// their priority, and the account for them on this device if it is not the tenant's; `now` is
    /// the time of the device's clock.
    ///
    /// # Errors
    ///
    /// `Invalid` if they are best-effort; `Exhausted` if the rate does not fit and the
    /// configuration refuses that.
    pub(crate) fn claim(
        &self,
        tenant: &Arc<Tenant>,
        life: &Life,
        priority: Priority,
        rate: Rate,
        device: usize,
        now: Duration,
    ) -> Result<(Priority, Option<Account>)> {
        check_rated(priority, rate)?;
        match self.claims[device].admit(tenant, life, rate, now) {
            Ok(account) => Ok((priority, account)),
            Err(error) => {
                tenant.note_unfit();
                match self.rules.read().unfit {
                    OverBudget::Refused => Err(error),
                    OverBudget::Late => Ok((priority, Some(tenant.spare(device)))),
                    OverBudget::BestEffort => Ok((Priority::BEST_EFFORT, None)),
                }
            }
        }
    }

    /// Returns the tenant of a principal, which may be new.
    pub(crate) fn of(&self, principal: &Principal) -> Arc<Tenant> {
        let mut known = self.known.lock();
        if let Some(tenant) = known.get(principal) {
            return tenant.clone();
        }
        let mut principal = principal.clone();
        if known.len() >= MAX_TENANTS && principal.is_anonymous() {
            known.retain(|principal, tenant| {
                !principal.is_anonymous() || Arc::strong_count(tenant) > 1
            });
            if known.len() >= MAX_TENANTS {
                principal = Principal::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            }
        }
        known.entry(principal.clone()).or_insert_with(|| Arc::new(self.make(principal))).clone()
    }

    /// Counts `bytes` of `principal` in the memory of all tenants other than the owner, until the
    /// share is dropped; `None` for the owner.
    ///
    /// # Errors
    ///
    /// `Exhausted` if they have their part of the memory budget.
    pub(crate) fn take_of_others(
        &self,
        principal: &Principal,
        bytes: u64,
    ) -> Result<Option<Share<&'static str>>> {
        (!principal.is_owner()).then(|| self.others.take(OTHERS, bytes)).transpose()
    }

    fn make(&self, principal: Principal) -> Tenant {
        let (grant, over) = self.rules_for(&principal);
        Tenant::new(principal, grant, over, self.claims.len()).among(&self.others)
    }

    fn rules_for(&self, principal: &Principal) -> (Grant, OverBudget) {
        let own = rustix::process::getuid().as_raw();
        let rules = self.rules.read();
        (Grant::of(&rules.rights, principal, own), rules.over)
    }

    /// Sets other rights for all current and future tenants.
    pub(crate) fn regrant(&self, config: &Config) {
        *self.rules.write() = Rules::of(config);
        self.claims.iter().for_each(|claims| claims.set_limits(config));
        for tenant in self.tenants() {
            let (grant, over) = self.rules_for(&tenant.principal);
            tenant.regrant(grant, over);
        }
    }

    /// Returns all tenants by name, with the usage of their claims until `now`, the time of each
    /// device's clock.
    pub(crate) fn all(&self, now: impl Iterator<Item = Duration>) -> Vec<Arc<Tenant>> {
        self.claims.iter().zip(now).for_each(|(claims, now)| claims.report(now));
        self.tenants()
    }

    fn tenants(&self) -> Vec<Arc<Tenant>> {
        self.known.lock().values().cloned().collect()
    }
}

/// Refuses budgets for best-effort requests.
///
/// # Errors
///
/// `Invalid` if the priority is best-effort.
pub(crate) fn check_rated(priority: Priority, rate: Rate) -> Result<()> {
    match priority.class() {
        Class::RealTime => Ok(()),
        Class::BestEffort => Err(Error::Invalid(format!(
            "a budget of {rate} must be for real-time requests, got best-effort"
        ))),
    }
}
