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

/// Maximum number of characters of a peer's text.
const MAX_TEXT_CHARS: usize = 4096;

/// Returns a text of a peer as errors have it. Terminals and logs show them, and the peer may be
/// hostile: control characters are replaced, and only the first 4,096 characters stay.
pub fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().take(MAX_TEXT_CHARS).map(shown).collect()
}

/// As [`printable`], of bytes that need not be UTF-8.
pub(crate) fn printable_bytes(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_peer_has_no_control_characters_and_an_end() {
        let text = "no device: \u{1b}]0;x\u{7}\u{1b}[2J\r\nreef: all is well \u{9b}ä";
        let shown = printable(text);
        assert!(!shown.contains(char::is_control), "{shown:?}");
        assert!(shown.starts_with("no device: ") && shown.ends_with('ä'), "{shown:?}");
        assert_eq!(printable(&"ä".repeat(10_000)).chars().count(), MAX_TEXT_CHARS);
        assert_eq!(printable_bytes(b"a\xff\x1b"), "a\u{fffd}\u{fffd}");
    }
}
