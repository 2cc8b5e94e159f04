//! Errors on their way through a session.

use reef_core::Error;
use reef_wire::printable;
use serde::{Deserialize, Serialize};

/// Name of this backend.
pub(crate) const NAME: &str = "remote";

/// Kind of an error, with what its kind needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Out of memory, with the bytes that were asked for.
    OutOfMemory(u64),
    /// The device is lost.
    DeviceLost,
    /// The device can't do it.
    Unsupported,
    /// There is nothing of this name.
    NotFound,
    /// An argument cannot be used.
    Invalid,
    /// The work was cancelled.
    Cancelled,
    /// Any other error.
    Other,
}

/// An error of the server's device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteError {
    /// Its kind.
    pub kind: Kind,
    /// Its text, without the backend's name.
    pub text: String,
}

impl RemoteError {
    /// Code and text of a reply.
    pub(crate) fn to_reply(&self) -> (u32, String) {
        let text = self.text.clone();
        match self.kind {
            Kind::OutOfMemory(asked) => (1, asked.to_string()),
            Kind::DeviceLost => (2, text),
            Kind::Unsupported => (3, text),
            Kind::NotFound => (4, text),
            Kind::Invalid => (5, text),
            Kind::Cancelled => (6, text),
            Kind::Other => (7, text),
        }
    }

    fn from_reply(code: u32, text: String) -> Self {
        let kind = match code {
            1 => Kind::OutOfMemory(text.parse().unwrap_or_default()),
            2 => Kind::DeviceLost,
            3 => Kind::Unsupported,
            4 => Kind::NotFound,
            5 => Kind::Invalid,
            6 => Kind::Cancelled,
            _ => Kind::Other,
        };
        let text = if code == 1 { String::new() } else { text };
        Self { kind, text }
    }
}

impl From<&Error> for RemoteError {
    fn from(error: &Error) -> Self {
        let (kind, text) = match error {
            Error::OutOfMemory { asked, .. } => (Kind::OutOfMemory(*asked as u64), String::new()),
            Error::DeviceLost { backend, why } => (Kind::DeviceLost, format!("{backend}: {why}")),
            Error::Unsupported { what, .. } => (Kind::Unsupported, what.clone()),
            Error::NotFound(text) => (Kind::NotFound, text.clone()),
            Error::Invalid(invalid) => (Kind::Invalid, invalid.to_string()),
            Error::Cancelled => (Kind::Cancelled, String::new()),
            other => (Kind::Other, other.to_string()),
        };
        Self { kind, text }
    }
}

impl From<RemoteError> for Error {
    fn from(error: RemoteError) -> Self {
        let RemoteError { kind, text } = error;
        let text = printable(&text); // of the server
        match kind {
            Kind::OutOfMemory(asked) => Self::OutOfMemory { backend: NAME, asked: asked as usize },
            Kind::DeviceLost => Self::DeviceLost { backend: NAME, why: text },
            Kind::Unsupported => Self::Unsupported { backend: NAME, what: text },
            Kind::NotFound => Self::NotFound(text),
            Kind::Invalid => invalid(text),
            Kind::Cancelled => Self::Cancelled,
            Kind::Other => Self::Host { what: NAME.into(), why: text },
        }
    }
}

/// An [`Invalid`](Error::Invalid) of a text, which names the argument before `": "`.
pub(crate) fn invalid(text: String) -> Error {
    match text.split_once(": ") {
        Some((argument, reason)) => Error::invalid(argument.to_owned(), reason.to_owned()),
        None => Error::invalid("call", text),
    }
}

/// An error of the connection. A device that can't be reached any more is lost.
pub(crate) fn of_wire(error: reef_wire::Error) -> Error {
    match error {
        reef_wire::Error::Remote { code, text } => RemoteError::from_reply(code, text).into(),
        reef_wire::Error::Invalid(text) => invalid(text),
        reef_wire::Error::Refused(text) => Error::NotFound(format!("{NAME}: refused: {text}")),
        other => Error::DeviceLost { backend: NAME, why: other.to_string() },
    }
}

/// The error of all work after the end of a session.
pub(crate) fn of_ended(why: &reef_wire::Error) -> Error {
    match of_wire(why.clone()) {
        lost @ Error::DeviceLost { .. } => lost,
        other => Error::DeviceLost { backend: NAME, why: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_keeps_its_kind_through_a_session() {
        for error in [
            Error::OutOfMemory { backend: NAME, asked: 7 },
            Error::DeviceLost { backend: NAME, why: "cpu: why".into() },
            Error::Unsupported { backend: NAME, what: "graphs".into() },
            Error::NotFound("no kernel".into()),
            Error::invalid("range", "must be inside of 8 bytes, got 9: none"),
            Error::Cancelled,
        ] {
            let remote = RemoteError::from(&error);
            let (code, text) = remote.to_reply();
            assert_eq!(RemoteError::from_reply(code, text), remote);
            let back = Error::from(remote);
            match &error {
                Error::DeviceLost { .. } => {
                    assert_eq!(back.to_string(), "remote: device lost: remote: cpu: why");
                }
                other => assert_eq!(&back, other),
            }
        }
    }

    #[test]
    fn invalid_text_without_an_argument_keeps_its_words() {
        let remote = RemoteError { kind: Kind::Invalid, text: "9 bytes".into() };
        assert_eq!(Error::from(remote), Error::invalid("call", "9 bytes"));
    }
}
