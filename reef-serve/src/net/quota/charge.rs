//! The memory that a request takes: charged as its bytes arrive, until the last byte of its answer
//! has gone.

use crate::error::Result;
use crate::net::identity::client_id::ClientId;
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::{ANONYMOUS, Principal};
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
}

impl Memory {
    /// `max` bytes in all, `anonymous` of all who have shown nothing, `principal` of one principal,
    /// `connection` of one connection.
    pub(crate) fn new((max, anonymous): (u64, u64), principal: u64, connection: u64) -> Self {
        let what = "bytes of requests";
        Self {
            anonymous: Shares::new(what, u64::MAX, anonymous),
            principals: Shares::new(what, max, principal),
            connections: Shares::new(what, u64::MAX, connection),
        }
    }

    /// Nothing yet, for a request of `peer`.
    pub(crate) fn charge(&self, peer: &Peer) -> Charge {
        let shares = (
            self.principals.take(peer.principal.clone(), 0).expect("nothing is always there"),
            self.connections.take(peer.id, 0).expect("nothing is always there"),
        );
        let is_anonymous = peer.principal.is_anonymous();
        let among = is_anonymous.then(|| self.anonymous.take(ANONYMOUS, 0));
        let among = among.map(|share| share.expect("nothing is always there"));
        Charge(Arc::new(Mutex::new(Charged { since: None, of: shares.0, by: shares.1, among })))
    }

    /// Bytes that are held.
    pub(crate) fn taken(&self) -> u64 {
        self.principals.taken()
    }
}

/// What one request is charged for. Clones are of the same request; the last one gives everything
/// back.
#[derive(Debug, Clone)]
pub(crate) struct Charge(Arc<Mutex<Charged>>);

#[derive(Debug)]
struct Charged {
    /// When the first byte was charged.
    since: Option<Instant>,
    of: Share<Principal>,
    by: Share<ClientId>,
    /// Of a client that has shown nothing.
    among: Option<Share<&'static str>>,
}

impl Charged {
    /// Takes more of each, or of none.
    fn grow(&mut self, bytes: u64) -> Result<()> {
        self.by.grow(bytes)?;
        self.of.grow(bytes).inspect_err(|_| self.by.shrink(bytes))?;
        let among = self.among.as_mut().map_or(Ok(()), |among| among.grow(bytes));
        among.inspect_err(|_| {
            self.by.shrink(bytes);
            self.of.shrink(bytes);
        })
    }
}

impl Charge {
    /// Charges for `bytes` more.
    ///
    /// # Errors
    ///
    /// `Exhausted`: they may not be held.
    pub(crate) fn add(&self, bytes: u64) -> Result<()> {
        let mut charged = self.0.lock();
        charged.since.get_or_insert_with(Instant::now);
        charged.grow(bytes)
    }

    /// Forgets a message of a stream, which has been dealt with. What has arrived of the next one,
    /// at most a frame, goes uncharged.
    pub(crate) fn clear(&self) {
        let mut charged = self.0.lock();
        charged.since = None;
        charged.by.clear();
        charged.of.clear();
        charged.among.iter_mut().for_each(Share::clear);
    }

    /// When the message began that is charged for.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.0.lock().since
    }

    /// The same bytes, which are charged for until the last clone of them is dropped.
    pub(crate) fn hold(&self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held { bytes, _charge: self.clone() })
    }
}

struct Held {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_held_until_the_last_clone_is_gone() {
        let memory = Memory::new((100, 100), 80, 60);
        let charge = memory.charge(&Peer::UNKNOWN);
        charge.add(50).unwrap();
        let said = charge.add(11).unwrap_err().to_string();
        assert_eq!(said, "http 0 has 50 bytes of requests, 11 more are asked for and 60 allowed");
        let bytes = charge.hold(Bytes::from_static(b"answer"));
        drop(charge);
        let part = bytes.slice(1..2);
        drop(bytes);
        assert_eq!((memory.taken(), &part[..]), (50, &b"n"[..]));
        drop(part);
        assert_eq!(memory.taken(), 0);
    }

    #[test]
    fn connections_of_one_principal_share_what_it_has() {
        let memory = Memory::new((100, 100), 80, 60);
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
    fn anonymous_clients_together_leave_room_for_others() {
        let memory = Memory::new((100, 70), 60, 60);
        let at = |last| Peer {
            principal: Principal::at([127, 0, 0, last].into()),
            id: ClientId { number: last.into(), ..Peer::UNKNOWN.id },
            ..Peer::UNKNOWN
        };
        let (a, b) = (memory.charge(&at(1)), memory.charge(&at(2)));
        a.add(50).unwrap();
        let said = b.add(21).unwrap_err().to_string();
        assert!(said.starts_with("the group without token or certificate has 50 bytes"), "{said}");
        b.add(20).unwrap();
        let user = memory.charge(&Peer { principal: Principal::User(1), ..at(3) });
        user.add(30).unwrap();
        assert_eq!(memory.taken(), 100);
        drop((a, b));
        assert_eq!(memory.taken(), 30);
    }
}
