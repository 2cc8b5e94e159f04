//! Why a call did nothing, as the port's result and a line for people.

/// Shorthand of this crate.
pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

/// The port's results that aren't success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `REEF_ERROR_INVALID_VALUE`; also whatever the port has no result for.
    Invalid = 1,
    /// `REEF_ERROR_NOT_FOUND`
    NotFound = 2,
    /// `REEF_ERROR_ALREADY_EXIST`
    Exists = 3,
}

/// Why a call did nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { kind: Kind::Invalid, text: text.into() }
    }

    pub(crate) fn not_enabled(stream: usize) -> Self {
        let text = format!("stream {stream:#x}: preemption is not enabled");
        Self { kind: Kind::NotFound, text }
    }

    pub(crate) fn enabled_already(stream: usize) -> Self {
        let text = format!("stream {stream:#x}: preemption is enabled already");
        Self { kind: Kind::Exists, text }
    }
}
