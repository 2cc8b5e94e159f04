//! Memory of a request: charged as its bytes arrive, until the last byte of its answer has been
//! sent.

use crate::error::{Error, Result};
use crate::net::identity::client_id::ClientId;
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::{ANONYMOUS, OTHERS, Principal};
use crate::net::quota::shares::{Share, Shares};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of requests and answers that the daemon holds.
#[derive(Debug)]
pub(crate) struct Memory {
    principals: Arc<Shares<Principal>>,
    connections: Arc<Shares<ClientId>>,
    anonymous: Arc<Shares<&'static str>>,
    others: Arc<Shares<&'static str>>,
    all: Arc<Shares<&'static str>>,
}

/// Holder of the bytes of all clients.
const ALL: &str = "all clients";

impl Memory {
    /// Limits: `max` bytes in all, `others` for all clients other than the owner, `anonymous` for
    /// all clients without authentication, `principal` for one principal, `connection` for one
    /// connection.
    pub(crate) fn new(
        max: u64,
        others: u64,
        anonymous: u64,
        principal: u64,
        connection: u64,
    ) -> Self {
        let what = "bytes of requests";
        Self {
            others: Shares::new(what, u64::MAX, others),
            anonymous: Shares::new(what, u64::MAX, anonymous),
            principals: Shares::new(what, u64::MAX, principal),
            all: Shares::new(what, u64::MAX, max),
            connections: Shares::new(what, u64::MAX, connection),
        }
    }

    /// Returns an empty charge for a request of `peer`.
    pub(crate) fn charge(&self, peer: &Peer) -> Charge {
        let shares = (
            self.principals.take(peer.principal.clone(), 0).expect("0 bytes are always available"),
            self.connections.take(peer.id, 0).expect("0 bytes are always available"),
        );
        let is_anonymous = peer.principal.is_anonymous();
        let anonymous = is_anonymous.then(|| self.anonymous.take(ANONYMOUS, 0));
        let anonymous = anonymous.map(|share| share.expect("0 bytes are always available"));
        let others = (!peer.principal.is_owner()).then(|| self.others.take(OTHERS, 0));
        let others = others.map(|share| share.expect("0 bytes are always available"));
        Charge(Arc::new(Mutex::new(ChargeState {
            since: None,
            of: shares.0,
            by: shares.1,
            anonymous,
            others,
            all: self.all.take(ALL, 0).expect("0 bytes are always available"),
        })))
    }

    /// Number of bytes that are held.
    pub(crate) fn taken(&self) -> u64 {
        self.all.taken()
    }
}

/// Bytes charged for one request. Clones belong to the same request; the last one returns
/// everything.
#[derive(Debug, Clone)]
pub(crate) struct Charge(Arc<Mutex<ChargeState>>);

#[derive(Debug)]
struct ChargeState {
    /// Time at which the first byte was charged.
    since: Option<Instant>,
    of: Share<Principal>,
    by: Share<ClientId>,
    /// Share of all unauthenticated clients, if the client is one.
    anonymous: Option<Share<&'static str>>,
    /// Share of all clients other than the owner, if the client is one.
    others: Option<Share<&'static str>>,
    /// Share of all clients' memory.
    all: Share<&'static str>,
}

impl ChargeState {
    /// Takes more of all clients' memory and of each quota, or of none.
    fn grow(&mut self, bytes: u64) -> Result<()> {
        let full = |error: Error| Error::Unavailable(error.to_string());
        self.all.grow(bytes).map_err(full)?;
        let others = self.others.as_mut().map_or(Ok(()), |others| others.grow(bytes));
        others.map_err(full).inspect_err(|_| self.all.shrink(bytes))?;
        self.grow_quotas(bytes).inspect_err(|_| {
            self.others.iter_mut().for_each(|others| others.shrink(bytes));
            self.all.shrink(bytes);
        })
    }

    fn grow_quotas(&mut self, bytes: u64) -> Result<()> {
        self.by.grow(bytes)?;
        self.of.grow(bytes).inspect_err(|_| self.by.shrink(bytes))?;
        let anonymous = self.anonymous.as_mut().map_or(Ok(()), |anonymous| anonymous.grow(bytes));
        anonymous.inspect_err(|_| {
            self.by.shrink(bytes);
            self.of.shrink(bytes);
        })
    }

    fn shrink(&mut self, bytes: u64) {
        self.by.shrink(bytes);
        self.of.shrink(bytes);
        self.anonymous.iter_mut().for_each(|anonymous| anonymous.shrink(bytes));
        self.others.iter_mut().for_each(|others| others.shrink(bytes));
        self.all.shrink(bytes);
    }
}

impl Charge {
    /// Charges `bytes` more.
    ///
    /// # Errors
    ///
    /// `Exhausted` if a quota does not allow them, `Unavailable` if all clients together, or all
    /// but the owner, have taken the memory.
    pub(crate) fn add(&self, bytes: u64) -> Result<()> {
        let mut charged = self.0.lock();
        charged.since.get_or_insert_with(Instant::now);
        charged.grow(bytes)
    }

    /// Checks that `bytes` more could be charged now. They aren't: a client that announces a body
    /// and does not send it takes nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`add`](Self::add).
    pub(crate) fn check(&self, bytes: u64) -> Result<()> {
        let mut charged = self.0.lock();
        charged.grow(bytes)?;
        charged.shrink(bytes);
        Ok(())
    }

    /// Clears the charge of a stream's message that has been processed. Bytes of the next message
    /// that have arrived already, at most one frame, are not charged.
    pub(crate) fn clear(&self) {
        let mut charged = self.0.lock();
        charged.since = None;
        charged.by.clear();
        charged.of.clear();
        charged.anonymous.iter_mut().for_each(Share::clear);
        charged.others.iter_mut().for_each(Share::clear);
        charged.all.clear();
    }

    /// Returns `bytes` of what was charged.
    pub(crate) fn remove(&self, bytes: u64) {
        self.0.lock().shrink(bytes);
    }

    /// Time at which the first byte of the current message was charged.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.0.lock().since
    }

    /// Returns the same bytes; they stay charged, and keep `guards`, until their last clone is
    /// dropped.
    pub(crate) fn hold(&self, bytes: Bytes, guards: impl Send + 'static) -> Bytes {
        Bytes::from_owner(ChargedBytes { bytes, _charge: self.clone(), _guards: guards })
    }
}

struct ChargedBytes<G> {
    bytes: Bytes,
    _charge: Charge,
    _guards: G,
}

impl<G> AsRef<[u8]> for ChargedBytes<G> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_charged_until_the_last_clone_is_dropped() {
        let memory = Memory::new(100, 100, 100, 80, 60);
        let charge = memory.charge(&Peer::UNKNOWN);
        charge.add(50).unwrap();
        let said = charge.add(11).unwrap_err().to_string();
        assert_eq!(said, "bytes of requests of http 0 must be at most 60, got 50 + 11");
        let bytes = charge.hold(Bytes::from_static(b"answer"), ());
        drop(charge);
        let part = bytes.slice(1..2);
        drop(bytes);
        assert_eq!((memory.taken(), &part[..]), (50, &b"n"[..]));
        drop(part);
        assert_eq!(memory.taken(), 0);
    }

    #[test]
    fn check_of_a_full_memory_is_refused_and_takes_nothing() {
        let memory = Memory::new(100, 100, 100, 80, 80);
        let user = |number: u32| Peer {
            principal: Principal::User(number),
            id: ClientId { number, ..Peer::UNKNOWN.id },
            ..Peer::UNKNOWN
        };
        let (a, b) = (memory.charge(&user(1)), memory.charge(&user(2)));
        a.add(60).unwrap();
        b.check(40).unwrap();
        let want = "bytes of requests of all clients must be at most 100, got 60 + 41";
        assert_eq!(b.check(41), Err(Error::Unavailable(want.into())));
        assert!(matches!(a.check(21), Err(Error::Exhausted(_))), "its own quota");
        assert_eq!(memory.taken(), 60);
        assert_eq!(b.add(41), Err(Error::Unavailable(want.into())));
        drop(a);
        b.add(80).unwrap();
    }

    #[test]
    fn connections_of_one_principal_share_its_quota() {
        let memory = Memory::new(100, 100, 100, 80, 60);
        let (one, mut other) = (Peer::UNKNOWN, Peer::UNKNOWN);
        other.id.number = 7;
        let (a, b) = (memory.charge(&one), memory.charge(&other));
        a.add(60).unwrap();
        assert!(b.add(21).is_err());
        b.add(20).unwrap();
        let someone = Peer { principal: Principal::User(1), ..other };
        memory.charge(&someone).add(20).unwrap();
        b.clear();
        assert_eq!(memory.taken(), 60);
    }

    #[test]
    fn anonymous_clients_share_one_quota() {
        let memory = Memory::new(100, 100, 70, 60, 60);
        let at = |last| Peer {
            principal: Principal::at([127, 0, 0, last].into()),
            id: ClientId { number: last.into(), ..Peer::UNKNOWN.id },
            ..Peer::UNKNOWN
        };
        let (a, b) = (memory.charge(&at(1)), memory.charge(&at(2)));
        a.add(50).unwrap();
        let said = b.add(21).unwrap_err().to_string();
        let want = "bytes of requests of the group without token or certificate must be at most 70";
        assert!(said.starts_with(want), "{said}");
        b.add(20).unwrap();
        let user = memory.charge(&Peer { principal: Principal::User(1), ..at(3) });
        user.add(30).unwrap();
        assert_eq!(memory.taken(), 100);
        drop((a, b));
        assert_eq!(memory.taken(), 30);
    }

    #[test]
    fn owner_finds_its_part_of_a_full_memory() {
        let memory = Memory::new(100, 88, 100, 80, 80);
        let of = |principal, number| Peer {
            principal,
            id: ClientId { number, ..Peer::UNKNOWN.id },
            ..Peer::UNKNOWN
        };
        let token = |name: &str, number| memory.charge(&of(Principal::Token(name.into()), number));
        let (a, b) = (token("a", 1), token("b", 2));
        a.add(80).unwrap();
        let want = "bytes of requests of all clients but the owner must be at most 88, got 80 + 9";
        assert_eq!(b.add(9), Err(Error::Unavailable(want.into())));
        assert_eq!(memory.taken(), 80);
        b.add(8).unwrap();
        let own = Principal::User(rustix::process::getuid().as_raw());
        let owner = memory.charge(&of(own, 3));
        owner.add(12).unwrap();
        assert!(matches!(owner.check(1), Err(Error::Unavailable(_))), "nothing is left");
        a.clear();
        drop(owner);
        b.check(80).unwrap_err(); // its own quota
        b.add(72).unwrap();
        assert_eq!(memory.taken(), 80);
    }
}
