//! Reasons for which clients get no session.

use reef_wire::{Error, NO_SESSION, NO_TOKEN, WRONG_TOKEN};

/// Reason for which a client has no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// It has no token, or a wrong one.
    Token,
    /// The TLS handshake did not come to its end.
    Tls,
    /// It is of another release.
    Release,
    /// It names a session that is not there (any more).
    Session,
    /// The server has as many sessions as it may have.
    Full,
    /// Its tenant has as many sessions as it may have.
    Tenant,
    /// It asks for more than its tenant may have.
    Rights,
    /// There is no such device, or no process for it.
    Device,
    /// It sent what cannot be.
    Protocol,
    /// Its connection ended, or it said nothing.
    Broken,
}

/// Beginning of the text for a client of a server that is full.
const FULL: &str = "the server has ";

impl Refusal {
    /// All of them, in the order of their metrics.
    pub const ALL: [Self; 10] = [
        Self::Token,
        Self::Tls,
        Self::Release,
        Self::Session,
        Self::Full,
        Self::Tenant,
        Self::Rights,
        Self::Device,
        Self::Protocol,
        Self::Broken,
    ];

    /// Reads the reason from the error of a handshake.
    pub fn of(error: &Error) -> Self {
        match error {
            Error::Refused(text) if text == NO_TOKEN || text == WRONG_TOKEN => Self::Token,
            Error::Refused(text) if text == NO_SESSION => Self::Session,
            Error::Refused(text) if text.starts_with(FULL) => Self::Full,
            Error::Refused(text) if text.starts_with("TLS") => Self::Tls,
            Error::Refused(_) => Self::Release,
            Error::Broken(_) | Error::Absent(_) => Self::Broken,
            _ => Self::Protocol,
        }
    }

    /// Label of its metric.
    pub fn label(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Tls => "tls",
            Self::Release => "release",
            Self::Session => "session",
            Self::Full => "full",
            Self::Tenant => "tenant",
            Self::Rights => "rights",
            Self::Device => "device",
            Self::Protocol => "protocol",
            Self::Broken => "broken",
        }
    }
}
