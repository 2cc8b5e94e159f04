//! Who is connected, by which way in, and how many there may be.

use crate::error::Result;
use crate::net::admission::{Admission, Permit};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    Local,
    Grpc,
    Http,
}

impl Protocol {
    /// All of them, as [`Clients`] counts.
    pub(crate) const EACH: [Self; 3] = [Self::Local, Self::Grpc, Self::Http];

    /// As metrics and traces say.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Grpc => "grpc",
            Self::Http => "http",
        }
    }
}

/// One connection: its way in and its number there, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClientId {
    pub(crate) protocol: Protocol,
    pub(crate) number: u32,
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.protocol.name(), self.number)
    }
}

/// Connections of all protocols.
#[derive(Debug)]
pub(crate) struct Clients {
    admission: Arc<Admission>,
    /// As [`Protocol::EACH`].
    each: [Arc<Admission>; 3],
    /// As [`Protocol::EACH`].
    next: [AtomicU32; 3],
}

impl Clients {
    /// Admits `max` connections at a time.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let each = Protocol::EACH.map(|protocol| Admission::new(protocol.name(), usize::MAX));
        let next = Protocol::EACH.map(|_| AtomicU32::new(1));
        Arc::new(Self { admission: Admission::new("connections", max), each, next })
    }

    /// A number for the next connection.
    pub(crate) fn number(&self, protocol: Protocol) -> ClientId {
        ClientId { protocol, number: self.next[protocol as usize].fetch_add(1, Ordering::Relaxed) }
    }

    /// Admits a connection until its permit is dropped.
    ///
    /// # Errors
    ///
    /// As [`Admission::enter`].
    pub(crate) fn try_acquire(&self, protocol: Protocol) -> Result<ConnectionPermit> {
        Ok(ConnectionPermit {
            _permits: [self.admission.try_acquire()?, self.each[protocol as usize].try_acquire()?],
        })
    }

    /// Refuses all connections to come.
    pub(crate) fn close(&self) {
        self.admission.close();
    }

    /// How many came in by each way, as [`Protocol::EACH`].
    pub(crate) fn in_use(&self) -> [usize; 3] {
        self.each.each_ref().map(|admission| admission.in_use())
    }
}

/// A connection's place.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    _permits: [Permit; 2],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn all_ways_share_the_places_and_have_numbers_of_their_own() {
        let clients = Clients::new(2);
        let a = clients.try_acquire(Protocol::Grpc).unwrap();
        let _b = clients.try_acquire(Protocol::Http).unwrap();
        assert_eq!(clients.in_use(), [0, 1, 1]);
        assert!(matches!(clients.try_acquire(Protocol::Local), Err(Error::Exhausted(_))));
        assert_eq!(clients.in_use(), [0, 1, 1], "who is refused is not counted");
        drop(a);
        let _c = clients.try_acquire(Protocol::Local).unwrap();
        assert_eq!(clients.in_use(), [1, 0, 1]);
        let names = [Protocol::Local, Protocol::Grpc, Protocol::Local]
            .map(|protocol| clients.number(protocol).to_string());
        assert_eq!(names, ["local 1", "grpc 1", "local 2"]);
    }
}
