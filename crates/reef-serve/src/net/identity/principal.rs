//! Principals: rights are given to a principal, and quotas are counted for one.
//!
//! | connection | principal |
//! |---|---|
//! | a Unix socket | the user that the kernel names |
//! | TCP, with a client's certificate | the name in the certificate |
//! | TCP, with a token | the token's name, request by request |
//! | loopback, with neither | the user that the kernel names, with rights of the address |
//! | TCP, with neither | its address: all clients of an address are the same principal |

use crate::config::rights::network;
use reef_guest::slots::Standing;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Name of all addresses together, for quotas that they share.
pub(crate) const ANONYMOUS: &str = "the group without token or certificate";

/// Name of all principals other than the owner, for quotas that they share.
pub(crate) const OTHERS: &str = "all clients but the owner";

/// Names of loopback in the configuration: one host, by either family.
const LOOPBACK_KEYS: [&str; 2] = ["address 127.0.0.1", "address ::1"];

/// Holder of rights and quotas.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Principal {
    /// A process of this user, over a Unix socket.
    User(u32),
    /// Any client with the token of this name.
    Token(Arc<str>),
    /// Any client with the key of a certificate with this name.
    Certificate(Arc<str>),
    /// A process of this user, over TCP on loopback, that has authenticated itself by nothing: a
    /// web page in that user's browser may be the sender.
    Loopback(u32),
    /// A client at this address that has authenticated itself by nothing.
    Address(IpAddr),
}

impl Principal {
    /// Returns the principal of a TCP client that has not authenticated itself yet.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Address(network(address))
    }

    /// True if it is the daemon's own user, or root.
    pub(crate) fn is_owner(&self) -> bool {
        self.standing() == Standing::Owner
    }

    /// True if it is not authenticated. A client may have many addresses.
    pub(crate) fn is_anonymous(&self) -> bool {
        matches!(self, Self::Address(_) | Self::Loopback(_))
    }

    /// Returns its standing, for its share of slots.
    pub(crate) fn standing(&self) -> Standing {
        match *self {
            Self::User(uid) => Standing::of_user(uid),
            Self::Loopback(_) | Self::Address(_) => Standing::Anonymous,
            Self::Token(_) | Self::Certificate(_) => Standing::Known,
        }
    }

    /// Returns the user that the kernel states.
    pub(crate) fn uid(&self) -> Option<u32> {
        match *self {
            Self::User(uid) | Self::Loopback(uid) => Some(uid),
            Self::Token(_) | Self::Certificate(_) | Self::Address(_) => None,
        }
    }

    /// Returns the names under which the configuration may give it rights, the first one first.
    pub(crate) fn keys(&self) -> Vec<String> {
        match self {
            Self::Loopback(_) => LOOPBACK_KEYS.map(Into::into).into(),
            other => vec![other.to_string()],
        }
    }

    /// True if the kernel states its identity: it uses a Unix socket.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::User(_))
    }
}

/// Its name in logs, metrics and the configuration: `user 1000`, `token ci`, `certificate alice`,
/// `user 1000 on loopback`, `address ::1`. [`Principal::keys`] has those of the configuration.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Loopback(uid) => write!(f, "user {uid} on loopback"),
            Self::Token(name) => write!(f, "token {name}"),
            Self::Certificate(name) => write!(f, "certificate {name}"),
            Self::Address(address) => write!(f, "address {address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_addresses_of_one_network_are_one_principal() {
        let at = |text: &str| Principal::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:0:0:2"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"), "one host, by either family");
        assert_eq!(at("10.0.0.1").to_string(), "address 10.0.0.1");
        assert_eq!(at("::1").to_string(), LOOPBACK_KEYS[1], "a network of its own");
        assert!(Principal::User(0).is_local() && !Principal::Token("ci".into()).is_local());
    }
}
