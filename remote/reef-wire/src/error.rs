//! Errors of a connection and of a session.

use crate::moved::Moved;
use std::io;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason for which a frame could not be sent, read or answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection is gone. The session may continue on another one.
    #[error("connection: {0}")]
    Broken(String),
    /// Nothing listens at the peer's address. If its process is gone, so are its sessions.
    #[error("connection: {0}")]
    Absent(String),
    /// The peer broke a rule of the protocol. The session is over.
    #[error("protocol: {0}")]
    Protocol(String),
    /// The peer refuses the connection or the session, with its reason.
    #[error("refused: {0}")]
    Refused(String),
    /// The session is at another server.
    #[error("the session has moved to {0}")]
    Moved(Moved),
    /// The session is over, with the reason.
    #[error("session ended: {0}")]
    Ended(String),
    /// The peer could not do what was asked, with its code and text.
    #[error("{text} (code {code})")]
    Remote {
        /// Code that the peer's program chose.
        code: u32,
        /// Text of the peer's program.
        text: String,
    },
    /// An argument of the caller cannot be used.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// Returns the end of a session at a server from which it has moved.
    pub fn ended_by(moved: &Moved) -> Self {
        Self::Ended(format!("the session has moved to {moved}"))
    }

    /// A broken connection, from an operation and the system's error.
    pub(crate) fn io(what: &str, error: &io::Error) -> Self {
        Self::Broken(format!("{what}: {error}"))
    }

    pub(crate) fn protocol(text: impl Into<String>) -> Self {
        Self::Protocol(text.into())
    }
}

impl Error {
    pub(crate) fn not_connected() -> Self {
        Self::Broken("there is no connection".into())
    }
}
