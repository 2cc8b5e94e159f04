//! Who is at the other end of a connection.

use crate::net::clients::{ClientId, Protocol};
use crate::net::principal::Principal;
use std::net::{IpAddr, Ipv4Addr};

/// Who is at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) id: ClientId,
    /// Of the connection; a request that shows a token has the token's.
    pub(crate) principal: Principal,
    /// Whether it may register shared memory.
    pub(crate) may_share: bool,
}

impl Peer {
    /// A client about which nothing is known.
    pub(crate) const UNKNOWN: Self = Self {
        id: ClientId { protocol: Protocol::Http, number: 0 },
        principal: Principal::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        may_share: false,
    };

    pub(crate) fn is_tcp(&self) -> bool {
        !self.principal.is_local()
    }
}
