//! Who is connected, by which way in, and how many there may be.

use crate::error::Result;
use crate::net::admission::{Door, Inside};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Local,
    Grpc,
    Http,
}

impl Way {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientId {
    pub(crate) way: Way,
    pub(crate) number: u32,
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.way.name(), self.number)
    }
}

/// Connections of all protocols.
#[derive(Debug)]
pub(crate) struct Clients {
    door: Arc<Door>,
    /// As [`Way::EACH`].
    each: [Arc<Door>; 3],
    /// As [`Way::EACH`].
    next: [AtomicU32; 3],
}

impl Clients {
    /// Room for `most` at a time.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let each = Way::EACH.map(|way| Door::new(way.name(), usize::MAX));
        let next = Way::EACH.map(|_| AtomicU32::new(1));
        Arc::new(Self { door: Door::new("connections", most), each, next })
    }

    /// A number for the next connection.
    pub(crate) fn number(&self, way: Way) -> ClientId {
        ClientId { way, number: self.next[way as usize].fetch_add(1, Ordering::Relaxed) }
    }

    /// Lets one in, until the ticket is dropped.
    ///
    /// # Errors
    ///
    /// As [`Door::enter`].
    pub(crate) fn enter(&self, way: Way) -> Result<Ticket> {
        Ok(Ticket { _inside: [self.door.enter()?, self.each[way as usize].enter()?] })
    }

    /// Lets nobody in any more.
    pub(crate) fn close(&self) {
        self.door.close();
    }

    /// How many came in by each way, as [`Way::EACH`].
    pub(crate) fn inside(&self) -> [usize; 3] {
        self.each.each_ref().map(|door| door.inside())
    }
}

/// A connection's place.
#[derive(Debug)]
pub(crate) struct Ticket {
    _inside: [Inside; 2],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn all_ways_share_the_places_and_have_numbers_of_their_own() {
        let clients = Clients::new(2);
        let a = clients.enter(Way::Grpc).unwrap();
        let _b = clients.enter(Way::Http).unwrap();
        assert_eq!(clients.inside(), [0, 1, 1]);
        assert!(matches!(clients.enter(Way::Local), Err(Error::Exhausted(_))));
        assert_eq!(clients.inside(), [0, 1, 1], "who is refused is not counted");
        drop(a);
        let _c = clients.enter(Way::Local).unwrap();
        assert_eq!(clients.inside(), [1, 0, 1]);
        let names = [Way::Local, Way::Grpc, Way::Local].map(|way| clients.number(way).to_string());
        assert_eq!(names, ["local 1", "grpc 1", "local 2"]);
    }
}
