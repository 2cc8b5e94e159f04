//! Why a call did nothing: a status and a line for people.

use crate::status::*;
use reef::models::Error as ModelError;

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

impl From<reef::Error> for Fault {
    fn from(error: reef::Error) -> Self {
        Self::new(status_of(&error), error.to_string())
    }
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Self {
        let status = match &error {
            ModelError::Device(error) => status_of(error),
            ModelError::UnknownNetwork { .. } => REEF_NOT_FOUND,
            ModelError::OutOfRange { .. } | ModelError::Length { .. } => REEF_INVALID,
            ModelError::Memory { .. } => REEF_NO_MEMORY,
            _ => REEF_FILE,
        };
        Self::new(status, error.to_string())
    }
}

fn status_of(error: &reef::Error) -> reef_status {
    use reef::Error as E;
    match error {
        E::OutOfMemory { .. } => REEF_NO_MEMORY,
        E::DeviceLost { .. } => REEF_LOST,
        E::Level { .. } | E::Unsupported { .. } => REEF_UNSUPPORTED,
        E::NotFound(_) => REEF_NOT_FOUND,
        E::Invalid(_) => REEF_INVALID,
        E::Host { .. } => REEF_SYSTEM,
        E::State(_) | E::Busy { .. } => REEF_BUSY,
        E::Cancelled => REEF_CANCELLED,
        E::Driver { .. } => REEF_DRIVER,
        _ => REEF_INTERNAL,
    }
}
