//! Who is at the other end of a connection.

use crate::net::identity::client_id::{ClientId, Protocol};
use crate::net::identity::principal::Principal;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Weak};

/// Who is at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) id: ClientId,
    /// Of the connection; a request that shows a token has the token's.
    pub(crate) principal: Principal,
    /// Whether it may register shared memory.
    pub(crate) may_share: bool,
    /// Whether its connection is open.
    pub(crate) life: Life,
}

/// Says whether a connection is open.
#[derive(Debug, Clone)]
pub(crate) struct Life(Weak<()>);

impl Life {
    pub(crate) fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// The same connection.
impl PartialEq for Life {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Eq for Life {}

/// Kept by a connection while it is open.
#[derive(Debug)]
pub(crate) struct Connected {
    _open: Arc<()>,
}

impl Connected {
    pub(crate) fn new() -> (Life, Self) {
        let open = Arc::new(());
        (Life(Arc::downgrade(&open)), Self { _open: open })
    }
}

impl Peer {
    /// A client about which nothing is known.
    pub(crate) const UNKNOWN: Self = Self {
        id: ClientId { protocol: Protocol::Http, number: 0 },
        principal: Principal::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        may_share: false,
        life: Life(Weak::new()),
    };

    pub(crate) fn is_tcp(&self) -> bool {
        !self.principal.is_local()
    }
}
