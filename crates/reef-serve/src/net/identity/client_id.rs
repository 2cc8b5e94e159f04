//! Numbers of connections, for logs and metrics.

use std::fmt;

/// Protocol of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Protocol {
    Local,
    Grpc,
    Http,
}

impl Protocol {
    /// All protocols, in the order of counters.
    pub(crate) const ALL: [Self; 3] = [Self::Local, Self::Grpc, Self::Http];

    /// Returns its name in metrics and traces.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Grpc => "grpc",
            Self::Http => "http",
        }
    }
}

/// One connection: its protocol and its number there, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId {
    pub(crate) protocol: Protocol,
    pub(crate) number: u32,
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.protocol.name(), self.number)
    }
}
