//! Tenants by principal.

use crate::class::{Class, Priority};
use crate::config::rights::{Over, Rights};
use crate::config::settings::Config;
use crate::error::{Error, Result};
use crate::net::identity::peer::Life;
use crate::net::identity::principal::Principal;
use crate::tenants::claims::Claims;
use crate::tenants::grant::Grant;
use crate::tenants::tenant::Tenant;
use parking_lot::{Mutex, RwLock};
use reef::{Account, Rate};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

/// Principals that are remembered. Addresses beyond that are one, as long as none of the others is
/// forgotten.
const MAX_TENANTS: usize = 1024;

/// Tenants by principal.
#[derive(Debug)]
pub(crate) struct Tenants {
    rules: RwLock<Rules>,
    /// By device.
    claims: Box<[Claims]>,
    known: Mutex<BTreeMap<Principal, Arc<Tenant>>>,
}

/// What of the configuration says who may do what.
#[derive(Debug)]
struct Rules {
    rights: Rights,
    over: Over,
    unfit: Over,
}

impl Rules {
    fn of(config: &Config) -> Self {
        Self { rights: config.rights.clone(), over: config.rt.over, unfit: config.rt.unfit }
    }
}

impl Tenants {
    /// Of a daemon with so many devices.
    pub(crate) fn new(config: &Config, devices: usize) -> Self {
        let rules = RwLock::new(Rules::of(config));
        let claims = (0..devices).map(|_| Claims::new(config)).collect();
        Self { rules, claims, known: Mutex::default() }
    }

    /// What a request, or all requests of a connection, get that state a rate: their place, and
    /// what they are charged to if that is not the tenant's account, on this device; `now` on its
    /// clock.
    ///
    /// # Errors
    ///
    /// `Invalid` if they are best-effort; `Exhausted` if the rate doesn't fit and the configuration
    /// refuses those.
    pub(crate) fn claim(
        &self,
        tenant: &Arc<Tenant>,
        life: &Life,
        priority: Priority,
        rate: Rate,
        (device, now): (usize, Duration),
    ) -> Result<(Priority, Option<Account>)> {
        check_rated(priority, rate)?;
        match self.claims[device].admit(tenant, life, rate, now) {
            Ok(account) => Ok((priority, account)),
            Err(error) => {
                tenant.note_unfit();
                match self.rules.read().unfit {
                    Over::Refused => Err(error),
                    Over::Late => Ok((priority, Some(tenant.spare(device)))),
                    Over::BestEffort => Ok((Priority::BEST_EFFORT, None)),
                }
            }
        }
    }

    /// The tenant of a principal, who may be new.
    pub(crate) fn of(&self, who: &Principal) -> Arc<Tenant> {
        let mut known = self.known.lock();
        if let Some(tenant) = known.get(who) {
            return tenant.clone();
        }
        let mut who = who.clone();
        if known.len() >= MAX_TENANTS && matches!(who, Principal::Address(_)) {
            known.retain(|who, tenant| {
                !matches!(who, Principal::Address(_)) || Arc::strong_count(tenant) > 1
            });
            if known.len() >= MAX_TENANTS {
                who = Principal::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            }
        }
        known.entry(who.clone()).or_insert_with(|| Arc::new(self.make(who))).clone()
    }

    fn make(&self, who: Principal) -> Tenant {
        let (grant, over) = self.granted(&who);
        Tenant::new(who, grant, over, self.claims.len())
    }

    fn granted(&self, who: &Principal) -> (Grant, Over) {
        let own = rustix::process::getuid().as_raw();
        let rules = self.rules.read();
        (Grant::of(&rules.rights, who, own), rules.over)
    }

    /// Grants other rights to all who are known and to come.
    pub(crate) fn regrant(&self, config: &Config) {
        *self.rules.write() = Rules::of(config);
        self.claims.iter().for_each(|claims| claims.set_room(config));
        for tenant in self.known() {
            let (grant, over) = self.granted(&tenant.who);
            tenant.regrant(grant, over);
        }
    }

    /// All who are known, by name, with what their claims have had until now, which each device's
    /// clock says.
    pub(crate) fn all(&self, now: impl Iterator<Item = Duration>) -> Vec<Arc<Tenant>> {
        self.claims.iter().zip(now).for_each(|(claims, now)| claims.book(now));
        self.known()
    }

    fn known(&self) -> Vec<Arc<Tenant>> {
        self.known.lock().values().cloned().collect()
    }
}

/// Budgets are for real-time requests.
///
/// # Errors
///
/// `Invalid` if these are best-effort.
pub(crate) fn check_rated(priority: Priority, rate: Rate) -> Result<()> {
    match priority.class() {
        Class::RealTime => Ok(()),
        Class::BestEffort => {
            Err(Error::Invalid(format!("a budget of {rate} for best-effort requests")))
        }
    }
}
