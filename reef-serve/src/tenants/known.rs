//! Tenants by principal.

use crate::config::rights::{Over, RealTime, Rights};
use crate::net::principal::Principal;
use crate::tenants::grant::Grant;
use crate::tenants::tenant::Tenant;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Principals that are remembered. Addresses beyond that are one, as long as none of the others is forgotten.
const MAX_TENANTS: usize = 1024;

/// Tenants by principal.
#[derive(Debug)]
pub(crate) struct Tenants {
    rights: RwLock<(Rights, Over)>,
    known: Mutex<BTreeMap<Principal, Arc<Tenant>>>,
}

impl Tenants {
    pub(crate) fn new(rights: Rights, rt: RealTime) -> Self {
        Self { rights: RwLock::new((rights, rt.over)), known: Mutex::default() }
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
        Tenant::new(who, grant, over)
    }

    fn granted(&self, who: &Principal) -> (Grant, Over) {
        let own = rustix::process::getuid().as_raw();
        let rights = self.rights.read();
        (Grant::of(&rights.0, who, own), rights.1)
    }

    /// Grants other rights to all who are known and to come.
    pub(crate) fn regrant(&self, rights: &Rights, over: Over) {
        *self.rights.write() = (rights.clone(), over);
        for tenant in self.all() {
            let (grant, over) = self.granted(&tenant.who);
            tenant.regrant(grant, over);
        }
    }

    /// All who are known, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Tenant>> {
        self.known.lock().values().cloned().collect()
    }
}
