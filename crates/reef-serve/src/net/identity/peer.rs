//! Peer of a connection.

use crate::net::identity::client_id::{ClientId, Protocol};
use crate::net::identity::principal::Principal;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Weak};

/// Peer of a connection: its number, principal and rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) id: ClientId,
    /// Principal of the connection; a request that shows a token has the token's.
    pub(crate) principal: Principal,
    /// True if it may register shared memory without a token.
    pub(crate) may_share: bool,
    /// True if its connection is open.
    pub(crate) life: Life,
}

/// Weak reference to a connection: whether it is still open.
#[derive(Debug, Clone)]
pub(crate) struct Life(Weak<()>);

impl Life {
    pub(crate) fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// Equal if they belong to the same connection.
impl PartialEq for Life {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Eq for Life {}

/// Strong reference that a connection keeps while it is open.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    _open: Arc<()>,
}

impl ConnectionGuard {
    pub(crate) fn new() -> (Life, Self) {
        let open = Arc::new(());
        (Life(Arc::downgrade(&open)), Self { _open: open })
    }
}

impl Peer {
    /// A client without any identity.
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
