//! Who is at the other end of a connection, as the kernel says.

use crate::net::clients::{ClientId, Protocol};

/// Who speaks: regions of one are not another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Principal {
    /// A process of this user, over a Unix socket.
    User(u32),
    /// A client over TCP.
    Tcp,
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) id: ClientId,
    pub(crate) principal: Principal,
    /// Whether it may register shared memory.
    pub(crate) may_share: bool,
}

impl Peer {
    /// A client about which nothing is known.
    pub(crate) const UNKNOWN: Self = Self {
        id: ClientId { protocol: Protocol::Http, number: 0 },
        principal: Principal::Tcp,
        may_share: false,
    };

    pub(crate) fn is_tcp(self) -> bool {
        self.principal == Principal::Tcp
    }
}
