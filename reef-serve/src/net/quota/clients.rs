//! Who is connected, by which way in, and how many there may be.
//!
//! The local path, Unix sockets and TCP have pools of their own: who fills one of them takes
//! nothing from the others. Of the local path's, an eighth is kept for real-time clients.

use crate::class::Class;
use crate::error::Result;
use crate::net::identity::client_id::{ClientId, Protocol};
use crate::net::identity::principal::Principal;
use crate::net::quota::admission::{Admission, Permit};
use crate::net::quota::connection_pool::{Lost, Place, Places};
use crate::net::quota::descriptors::Room;
use crate::net::quota::rate_limit::Pace;
use crate::net::quota::shares::{Share, Shares};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// A place of a client of the local path, until this is dropped.
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
    unix: Arc<Places>,
    tcp: Arc<Places>,
    pace: Pace,
    pub(crate) room: Room,
    /// As [`Protocol::EACH`].
    each: [Arc<Admission>; 3],
    /// As [`Protocol::EACH`].
    next: [AtomicU32; 3],
}

impl Clients {
    /// Admits as many connections at a time by each way in as there is room, and `part` of one
    /// principal over TCP, `user_part` of one user by the others; over TCP `per_second` of one
    /// principal.
    pub(crate) fn new(room: Room, part: usize, user_part: usize, per_second: u32) -> Arc<Self> {
        let connections = |max| Admission::new("connections", max);
        let Room { local, unix, tcp, .. } = room;
        Arc::new(Self {
            local: Shares::new("connections", local as u64, user_part as u64),
            local_best_effort: connections(local - local / 8),
            unix: Places::new(unix, user_part),
            tcp: Places::new(tcp, part),
            room,
            pace: Pace::new(per_second),
            each: Protocol::EACH.map(|protocol| Admission::new(protocol.name(), usize::MAX)),
            next: Protocol::EACH.map(|_| AtomicU32::new(1)),
        })
    }

    /// A number for the next connection.
    pub(crate) fn number(&self, protocol: Protocol) -> ClientId {
        ClientId { protocol, number: self.next[protocol as usize].fetch_add(1, Ordering::Relaxed) }
    }

    /// Admits a connection of gRPC or HTTP until its permit and its place are dropped.
    ///
    /// # Errors
    ///
    /// As [`Pace::check`] and [`Places::enter`]; `Unavailable` after [`close`](Self::close).
    pub(crate) fn enter(
        &self,
        protocol: Protocol,
        principal: &Principal,
    ) -> Result<(Permit, Place, Lost)> {
        if !principal.is_local() {
            self.pace.check(principal, Instant::now())?;
        }
        let permit = self.each[protocol as usize].try_acquire()?;
        let pool = if principal.is_local() { &self.unix } else { &self.tcp };
        let (place, lost) = pool.enter(principal.clone(), principal.is_local())?;
        Ok((permit, place, lost))
    }

    /// Admits a client of the local path, which may be asked for its class then.
    ///
    /// # Errors
    ///
    /// As [`Shares::take`] and [`Admission::try_acquire`].
    pub(crate) fn enter_local(&self, who: &Principal) -> Result<Permits> {
        let share = self.local.take(who.clone(), 1)?;
        Ok(Permits { _share: share, _permit: self.each[Protocol::Local as usize].try_acquire()? })
    }

    /// Lets a client of the local path stay that has said its class: best-effort clients leave room
    /// for others.
    ///
    /// # Errors
    ///
    /// As [`Admission::try_acquire`].
    pub(crate) fn stay_local(&self, class: Class) -> Result<Option<Permit>> {
        (class == Class::BestEffort).then(|| self.local_best_effort.try_acquire()).transpose()
    }

    /// Refuses all connections to come.
    pub(crate) fn close(&self) {
        self.each.iter().for_each(|admission| admission.close());
    }

    /// How many came in by each way, as [`Protocol::EACH`].
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
    fn ways_in_have_places_and_numbers_of_their_own() {
        let clients = Clients::new(Room::new(8), 2, 8, 3);
        let me = &Principal::User(1);
        let tcp = &Peer::UNKNOWN.principal;
        let enter = |protocol, principal| clients.enter(protocol, principal);
        let _tcp = [enter(Protocol::Grpc, tcp).unwrap(), enter(Protocol::Http, tcp).unwrap()];
        let said = [(); 2].map(|()| enter(Protocol::Http, tcp).unwrap_err().to_string());
        assert_eq!(said[0], "address 0.0.0.0 has 2 connections, all in use: no more");
        assert_eq!(said[1], "address 0.0.0.0 has made 3 connections in a second");
        assert_eq!(clients.in_use(), [0, 1, 1], "who is refused is not counted");
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
        let said = Clients::new(Room::new(8), 2, 0, 0).enter_local(me).unwrap_err().to_string();
        assert!(said.starts_with("user 1 has 0 connections"), "{said}");
        clients.close();
        assert!(matches!(enter(Protocol::Http, me), Err(Error::Unavailable(_))));
    }
}
