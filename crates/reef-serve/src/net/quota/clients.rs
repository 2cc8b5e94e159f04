//! Connected clients, by protocol, and their quotas.
//!
//! The local path, Unix sockets and TCP have pools of their own, so a full one takes nothing from
//! the others. All are divided by the rule of [`reef_guest::slots`]. An eighth of the local path's
//! slots is reserved for real-time clients.

use crate::class::Class;
use crate::config::settings::Config;
use crate::error::{Error, Result};
use crate::net::identity::client_id::{ClientId, Protocol};
use crate::net::identity::principal::Principal;
use crate::net::quota::admission::{Admission, Permit};
use crate::net::quota::connection_pool::{ConnectionPool, ConnectionSlot, SlotLoss};
use crate::net::quota::descriptors::SlotCounts;
use crate::net::quota::rate_limit::RateLimit;
use parking_lot::Mutex;
use reef_guest::slots::{SlotShares, Slots, Timeouts};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Slot of a client of the local path, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permits {
    clients: Arc<Clients>,
    number: u64,
    _permit: Permit,
}

impl Drop for Permits {
    fn drop(&mut self) {
        self.clients.local.lock().remove(self.number);
    }
}

/// Connections of all protocols.
#[derive(Debug)]
pub(crate) struct Clients {
    local: Mutex<Slots<Principal, ()>>,
    local_best_effort: Arc<Admission>,
    unix: Arc<ConnectionPool>,
    tcp: Arc<ConnectionPool>,
    rate_limit: RateLimit,
    /// True if a client over TCP can have a token or a certificate.
    has_proofs: bool,
    pub(crate) slot_counts: SlotCounts,
    /// One for each of [`Protocol::ALL`].
    each: [Arc<Admission>; 3],
    /// Next number for each of [`Protocol::ALL`].
    next: [AtomicU32; 3],
}

impl Clients {
    /// Limits: `slot_counts` connections at a time for each endpoint, divided as the configuration
    /// says; over TCP also new ones of one principal in a second.
    pub(crate) fn new(slot_counts: SlotCounts, config: &Config) -> Arc<Self> {
        let connections = |max| Admission::new("connections", max);
        let SlotCounts { local, unix, tcp, .. } = slot_counts;
        let users =
            |max: usize| SlotShares::with_owner(max, config.limits.part(max as u64) as usize);
        let has_proofs = config.has_proofs();
        Arc::new(Self {
            local: Mutex::new(Slots::new(users(local))),
            local_best_effort: connections(local - local / 8),
            unix: ConnectionPool::new(users(unix), &config.times),
            tcp: ConnectionPool::new(tcp_parts(tcp, has_proofs, config), &config.times),
            slot_counts,
            rate_limit: RateLimit::new(config.limits.connects_per_second),
            has_proofs,
            each: Protocol::ALL.map(|protocol| Admission::new(protocol.name(), usize::MAX)),
            next: Protocol::ALL.map(|_| AtomicU32::new(1)),
        })
    }

    /// Takes the slots of connections that have made no progress for too long.
    pub(crate) fn sweep(&self) {
        self.unix.sweep();
        self.tcp.sweep();
    }

    /// Returns a number for the next connection.
    pub(crate) fn number(&self, protocol: Protocol) -> ClientId {
        ClientId { protocol, number: self.next[protocol as usize].fetch_add(1, Ordering::Relaxed) }
    }

    /// Admits a connection of gRPC or HTTP until its permit and its slot are dropped.
    ///
    /// # Errors
    ///
    /// Errors of [`RateLimit::check`] and [`ConnectionPool::enter`]; `Unavailable` after
    /// [`close`](Self::close).
    pub(crate) fn enter(
        &self,
        protocol: Protocol,
        principal: &Principal,
    ) -> Result<(Permit, ConnectionSlot, SlotLoss)> {
        let is_late = self.check_rate(principal)?;
        let permit = self.each[protocol as usize].try_acquire()?;
        let pool = if principal.is_local() { &self.unix } else { &self.tcp };
        let (slot, lost) = pool.enter(principal.clone(), is_late)?;
        Ok((permit, slot, lost))
    }

    /// Returns whether a connection comes sooner than its principal may connect. It is still
    /// admitted if it can show that it belongs to another principal.
    fn check_rate(&self, principal: &Principal) -> Result<bool> {
        if principal.is_local() {
            return Ok(false);
        }
        match self.rate_limit.check(principal, Instant::now()) {
            Ok(()) => Ok(false),
            Err(_) if self.has_proofs => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Admits a client of the local path, before its class is known.
    ///
    /// # Errors
    ///
    /// `Exhausted` if all slots that it may have are in use; errors of
    /// [`Admission::try_acquire`].
    pub(crate) fn enter_local(self: &Arc<Self>, principal: &Principal) -> Result<Permits> {
        let permit = self.each[Protocol::Local as usize].try_acquire()?;
        let (holder, standing) = (principal.clone(), principal.standing());
        // Its memory and its queue would go with the slot: it keeps it.
        let entered =
            self.local.lock().enter(holder, standing, Timeouts::WORKING, (), Instant::now());
        let number =
            entered.map_err(|(full, ())| Error::Exhausted(full.text("connections", principal)))?;
        Ok(Permits { clients: self.clone(), number, _permit: permit })
    }

    /// Keeps a client of the local path once its class is known: best-effort clients leave room for
    /// real-time ones.
    ///
    /// # Errors
    ///
    /// Errors of [`Admission::try_acquire`].
    pub(crate) fn stay_local(&self, class: Class) -> Result<Option<Permit>> {
        (class == Class::BestEffort).then(|| self.local_best_effort.try_acquire()).transpose()
    }

    /// Refuses all future connections.
    pub(crate) fn close(&self) {
        self.each.iter().for_each(|admission| admission.close());
    }

    /// Number of connections for each of [`Protocol::ALL`].
    pub(crate) fn in_use(&self) -> [usize; 3] {
        self.each.each_ref().map(|admission| admission.in_use())
    }
}

/// Divides the slots of TCP: if there are tokens or certificates, a quarter is for their clients.
fn tcp_parts(max: usize, has_proofs: bool, config: &Config) -> SlotShares {
    let each = config.limits.part(max as u64) as usize;
    let anonymous = if has_proofs { config.limits.of_anonymous(max as u64) as usize } else { max };
    SlotShares { max, each, anonymous, others: max }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::identity::peer::Peer;

    fn config(per_second: u32, percent: u64) -> Config {
        let mut config = Config::default();
        config.limits.connects_per_second = per_second;
        config.limits.principal_percent = percent;
        config
    }

    #[test]
    fn protocols_have_slots_and_numbers_of_their_own() {
        let clients = Clients::new(SlotCounts::new(8, 8), &config(3, 25));
        let me = &Principal::User(0);
        let tcp = &Peer::UNKNOWN.principal;
        let enter = |protocol, principal| clients.enter(protocol, principal);
        let _tcp = [enter(Protocol::Grpc, tcp).unwrap(), enter(Protocol::Http, tcp).unwrap()];
        let refused = || enter(Protocol::Http, tcp).unwrap_err().to_string();
        let full = "connections of address 0.0.0.0 must be at most 2: all are in use";
        assert_eq!(refused(), full);
        // Later on a busy machine, where a connection may have been regained.
        let late = "connections of address 0.0.0.0 must be at most 3 per second";
        assert!((0..1000).any(|_| refused() == late));
        assert_eq!(clients.in_use(), [0, 1, 1], "a refused connection is not counted");
        let _unix = enter(Protocol::Grpc, &Principal::User(1)).unwrap();
        let _local: Vec<_> = (0..7).map(|_| clients.enter_local(me).unwrap()).collect();
        let _be: Vec<_> = (0..7).map(|_| clients.stay_local(Class::BestEffort).unwrap()).collect();
        let _last = clients.enter_local(me).unwrap();
        assert!(matches!(clients.stay_local(Class::BestEffort), Err(Error::Exhausted(_))));
        clients.stay_local(Class::RealTime).unwrap();
        assert!(matches!(clients.enter_local(me), Err(Error::Exhausted(_))));
        assert_eq!(clients.in_use(), [8, 2, 1]);
        let names = [Protocol::Local, Protocol::Grpc, Protocol::Local]
            .map(|protocol| clients.number(protocol).to_string());
        assert_eq!(names, ["local 1", "grpc 1", "local 2"]);
        clients.close();
        assert!(matches!(enter(Protocol::Http, me), Err(Error::Unavailable(_))));
    }

    #[test]
    fn local_slots_are_divided_among_users() {
        let clients = Clients::new(SlotCounts::new(16, 16), &config(0, 50));
        let mut permits = Vec::new();
        let mut fill = |uid: u32| {
            let before = permits.len();
            permits.extend((0..20).filter_map(|_| clients.enter_local(&Principal::User(uid)).ok()));
            permits.len() - before
        };
        let own = rustix::process::getuid().as_raw();
        assert_eq!(
            [fill(own + 1), fill(own + 2), fill(own)],
            [8, 6, 2],
            "an eighth is the owner's"
        );
    }

    #[test]
    fn connection_above_the_rate_is_admitted_to_show_a_token() {
        let mut config = config(1, 50);
        let address = Principal::at([10, 0, 0, 1].into());
        let second = |config: &Config| {
            let clients = Clients::new(SlotCounts::new(8, 8), config);
            let _first = clients.enter(Protocol::Http, &address).unwrap();
            clients.enter(Protocol::Http, &address).is_ok()
        };
        // Again where a busy machine takes a second from one to the next.
        assert!((0..100).any(|_| !second(&config)), "no client has a token");
        config.listen.token_file = Some("token".into());
        assert!(second(&config));
    }
}
