//! Errors of requests, and their kinds in each protocol.

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Maximum length of a text sent to a client, in bytes.
const MAX_TEXT_LEN: usize = 1024;

/// Reason for which a request, a connection or the daemon itself was refused or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No model, version or shared-memory region of this name.
    #[error("{0}")]
    NotFound(String),
    /// The request contradicts the protocol or the model; the text names the field and both values.
    #[error("{0}")]
    Invalid(String),
    /// A model's file with something that REEF does not read, such as an unknown operator: a
    /// program may answer in its place. Clients see the kind of [`Invalid`](Self::Invalid).
    #[error("{0}")]
    Unsupported(String),
    /// The resource exists already.
    #[error("{0}")]
    Exists(String),
    /// A queue, a limit or the memory budget is full. Try again later, or ask for less.
    #[error("{0}")]
    Exhausted(String),
    /// A file system has no room left for a write.
    #[error("{0}")]
    NoSpace(String),
    /// A message exceeds its maximum length. A shorter one would have been accepted.
    #[error("{0}")]
    TooLarge(String),
    /// The request's deadline passed before it finished.
    #[error("{0}")]
    Deadline(String),
    /// The daemon drains, or the model is being unloaded.
    #[error("{0}")]
    Unavailable(String),
    /// A part of the protocol that this daemon does not implement.
    #[error("{0} is not implemented")]
    Unimplemented(String),
    /// The client has not authenticated itself.
    #[error("{0}")]
    Unauthenticated(String),
    /// The client may not do this.
    #[error("{0}")]
    Denied(String),
    /// The device or the operating system failed; the text has its message.
    #[error("{0}")]
    Failed(String),
    /// The program of a model reported an error; the text has its message.
    #[error("{0}")]
    Program(String),
}

impl Error {
    /// Short name of the kind, for metrics and the local protocol.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "not_found",
            Self::Invalid(_) | Self::Unsupported(_) => "invalid",
            Self::Exists(_) => "exists",
            Self::Exhausted(_) => "exhausted",
            Self::NoSpace(_) => "no_space",
            Self::TooLarge(_) => "too_large",
            Self::Deadline(_) => "deadline",
            Self::Unavailable(_) => "unavailable",
            Self::Unimplemented(_) => "unimplemented",
            Self::Unauthenticated(_) => "unauthenticated",
            Self::Denied(_) => "denied",
            Self::Failed(_) => "failed",
            Self::Program(_) => "program",
        }
    }

    /// The text without the kind.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::NotFound(text)
            | Self::Invalid(text)
            | Self::Unsupported(text)
            | Self::Exists(text)
            | Self::Exhausted(text)
            | Self::NoSpace(text)
            | Self::TooLarge(text)
            | Self::Deadline(text)
            | Self::Unavailable(text)
            | Self::Unimplemented(text)
            | Self::Unauthenticated(text)
            | Self::Denied(text)
            | Self::Failed(text)
            | Self::Program(text) => text,
        }
    }

    /// Returns an error of the same kind with another text.
    pub(crate) fn map_text(self, change: impl FnOnce(&str) -> String) -> Self {
        let text = change(self.text());
        match self {
            Self::NotFound(_) => Self::NotFound(text),
            Self::Invalid(_) => Self::Invalid(text),
            Self::Unsupported(_) => Self::Unsupported(text),
            Self::Exists(_) => Self::Exists(text),
            Self::Exhausted(_) => Self::Exhausted(text),
            Self::NoSpace(_) => Self::NoSpace(text),
            Self::TooLarge(_) => Self::TooLarge(text),
            Self::Deadline(_) => Self::Deadline(text),
            Self::Unavailable(_) => Self::Unavailable(text),
            Self::Unimplemented(_) => Self::Unimplemented(text),
            Self::Unauthenticated(_) => Self::Unauthenticated(text),
            Self::Denied(_) => Self::Denied(text),
            Self::Failed(_) => Self::Failed(text),
            Self::Program(_) => Self::Program(text),
        }
    }

    /// Text for a client, truncated to a bounded length because it may quote the client.
    pub(crate) fn client_text(&self) -> String {
        let mut text = self.to_string();
        text.truncate(text.floor_char_boundary(MAX_TEXT_LEN));
        text
    }

    /// Converts an error of writing `what`: [`NoSpace`](Self::NoSpace) if there is no room for it.
    pub(crate) fn of_write(what: &str, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        let text = format!("{what}: {error}");
        match error.kind() {
            K::StorageFull | K::QuotaExceeded => Self::NoSpace(text),
            _ => Self::Failed(text),
        }
    }

    /// A [`Failed`](Self::Failed) call of the operating system.
    pub(crate) fn system(what: &str, error: impl std::fmt::Display) -> Self {
        Self::Failed(format!("{what}: {error}"))
    }
}

impl From<reef::Error> for Error {
    fn from(error: reef::Error) -> Self {
        use reef::Error as E;
        match error {
            E::OutOfMemory { .. } => Self::Exhausted(error.to_string()),
            E::Cancelled => Self::Unavailable("cancelled: the device's dispatcher ended".into()),
            E::NotFound(text) => Self::NotFound(text),
            E::Invalid(invalid) => Self::Invalid(invalid.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<reef::models::Error> for Error {
    fn from(error: reef::models::Error) -> Self {
        use reef::models::Error as E;
        match error {
            E::Device(error) => error.into(),
            E::Memory { .. } => Self::Exhausted(format!("memory budget: {error}")),
            E::UnknownNetwork { .. } => Self::NotFound(error.to_string()),
            _ if error.is_unsupported() => Self::Unsupported(error.to_string()),
            _ => Self::Invalid(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_client_is_truncated_at_a_character() {
        let long = Error::Unimplemented("ä".repeat(1 << 20));
        assert_eq!(long.client_text(), "ä".repeat(MAX_TEXT_LEN / 2));
        assert_eq!(Error::Invalid("short".into()).client_text(), "short");
        assert_eq!(
            Error::Denied("no".into()).map_text(|text| format!("{text}!")).client_text(),
            "no!"
        );
    }
}
