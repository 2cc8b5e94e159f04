//! Why a call did nothing: a status and a line for people.

use crate::status::*;
use reef_any::Reason;

/// Shorthand of this crate.
pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

/// A status that isn't `REEF_OK`, and the text of
/// [`reef_error_message`](crate::reef_error_message).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: reef_status,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(status: reef_status, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(REEF_INVALID, text)
    }

    pub(crate) fn busy(text: impl Into<String>) -> Self {
        Self::new(REEF_BUSY, text)
    }
}

impl From<reef_any::Fault> for Fault {
    fn from(fault: reef_any::Fault) -> Self {
        Self::new(status_of(fault.reason), fault.text)
    }
}

impl From<reef::models::Error> for Fault {
    fn from(error: reef::models::Error) -> Self {
        reef_any::Fault::from(error).into()
    }
}

fn status_of(reason: Reason) -> reef_status {
    match reason {
        Reason::Invalid => REEF_INVALID,
        Reason::NotFound => REEF_NOT_FOUND,
        Reason::Unsupported => REEF_UNSUPPORTED,
        Reason::Lost => REEF_LOST,
        Reason::NoMemory => REEF_NO_MEMORY,
        Reason::Busy => REEF_BUSY,
        Reason::Cancelled => REEF_CANCELLED,
        Reason::File => REEF_FILE,
        Reason::Driver => REEF_DRIVER,
        Reason::System => REEF_SYSTEM,
        _ => REEF_INTERNAL,
    }
}
