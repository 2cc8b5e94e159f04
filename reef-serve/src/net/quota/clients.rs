//! Connected clients, by protocol, and their quotas.
//!
//! The local path, Unix sockets and TCP have pools of their own, so a full one takes nothing from
//! the others. An eighth of the local path's slots is reserved for real-time clients.

use crate::class::Class;
use crate::error::Result;
use crate::net::identity::client_id::{ClientId, Protocol};
use crate::net::identity::principal::Principal;
use crate::net::quota::admission::{Admission, Permit};
use crate::net::quota::connection_pool::{ConnectionPool, ConnectionSlot, SlotLoss};
use crate::net::quota::descriptors::SlotCounts;
use crate::net::quota::rate_limit::RateLimit;
use crate::net::quota::shares::{Share, Shares};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Slot of a client of the local path, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permits {
    _share: Share<Principal>,
    _permit: Permit,
}

/// Connections of all protocols.
#[derive(Debug)]
pub(crate) struct Clients {
    local: Arc<Shares<Principal>>,
    local_best_effort: Arc<Admission>,
    unix: Arc<ConnectionPool>,
    tcp: Arc<ConnectionPool>,
    rate_limit: RateLimit,
    pub(crate) slot_counts: SlotCounts,
    /// One for each of [`Protocol::EACH`].
    each: [Arc<Admission>; 3],
    /// Next number for each of [`Protocol::EACH`].
    next: [AtomicU32; 3],
}

impl Clients {
    /// Limits: `room` connections at a time for each endpoint, `part` of one principal over TCP,
    /// `user_part` of one user over the others; over TCP also `per_second` new ones of one
    /// principal.
    pub(crate) fn new(
        slot_counts: SlotCounts,
        part: usize,
        user_part: usize,
        per_second: u32,
    ) -> Arc<Self> {
        let connections = |max| Admission::new("connections", max);
        let SlotCounts { local, unix, tcp, .. } = slot_counts;
        Arc::new(Self {
            local: Shares::new("connections", local as u64, user_part as u64),
            local_best_effort: connections(local - local / 8),
            unix: ConnectionPool::new(unix, user_part),
            tcp: ConnectionPool::new(tcp, part),
            slot_counts,
            rate_limit: RateLimit::new(per_second),
            each: Protocol::EACH.map(|protocol| Admission::new(protocol.name(), usize::MAX)),
            next: Protocol::EACH.map(|_| AtomicU32::new(1)),
        })
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
        if !principal.is_local() {
            self.rate_limit.check(principal, Instant::now())?;
        }
        let permit = self.each[protocol as usize].try_acquire()?;
        let pool = if principal.is_local() { &self.unix } else { &self.tcp };
        let (slot, lost) = pool.enter(principal.clone(), principal.is_local())?;
        Ok((permit, slot, lost))
    }

    /// Admits a client of the local path, before its class is known.
    ///
    /// # Errors
    ///
    /// Errors of [`Shares::take`] and [`Admission::try_acquire`].
    pub(crate) fn enter_local(&self, principal: &Principal) -> Result<Permits> {
        let share = self.local.take(principal.clone(), 1)?;
        Ok(Permits { _share: share, _permit: self.each[Protocol::Local as usize].try_acquire()? })
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

    /// Number of connections for each of [`Protocol::EACH`].
    pub(crate) fn in_use(&self) -> [usize; 3] {
        self.each.each_ref().map(|admission| admission.in_use())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::net::identity::peer::Peer;

    #[test]
    fn protocols_have_slots_and_numbers_of_their_own() {
        let clients = Clients::new(SlotCounts::new(8), 2, 8, 3);
        let me = &Principal::User(1);
        let tcp = &Peer::UNKNOWN.principal;
        let enter = |protocol, principal| clients.enter(protocol, principal);
        let _tcp = [enter(Protocol::Grpc, tcp).unwrap(), enter(Protocol::Http, tcp).unwrap()];
        let said = [(); 2].map(|()| enter(Protocol::Http, tcp).unwrap_err().to_string());
        assert_eq!(said[0], "connections of address 0.0.0.0 must be at most 2: all are in use");
        assert_eq!(said[1], "connections of address 0.0.0.0 must be at most 3 per second");
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
        let said =
            Clients::new(SlotCounts::new(8), 2, 0, 0).enter_local(me).unwrap_err().to_string();
        assert_eq!(said, "connections of user 1 must be at most 0, got 0 + 1");
        clients.close();
        assert!(matches!(enter(Protocol::Http, me), Err(Error::Unavailable(_))));
    }
}
