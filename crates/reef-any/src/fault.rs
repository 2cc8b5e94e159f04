//! Why a call did nothing: a reason that programs can act on, and a line for people.

use reef::models::Error as ModelError;
use std::fmt;

/// Shorthand of this crate.
pub type Result<T, E = Fault> = std::result::Result<T, E>;

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// An argument can't be.
    Invalid,
    /// Nothing has this name.
    NotFound,
    /// The device or this version can't do it.
    Unsupported,
    /// The device stopped answering, or a kernel of the client failed.
    Lost,
    /// The device or the host is out of memory.
    NoMemory,
    /// Not now: a request of the network is on its way, or a queue is full.
    Busy,
    /// A fault of the library.
    Internal,
    /// The request was cancelled, or its client or dispatcher was closed.
    Cancelled,
    /// A file can't be read, or isn't what it should be.
    File,
    /// The vendor's driver refused a call.
    Driver,
    /// The operating system refused something, such as a thread.
    System,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub reason: Reason,
    /// Its line for people.
    pub text: String,
}

impl Fault {
    /// A refusal for this reason.
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }

    /// A wrong argument.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(Reason::Invalid, text)
    }

    /// A call that may succeed later.
    pub fn busy(text: impl Into<String>) -> Self {
        Self::new(Reason::Busy, text)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

impl From<reef::Error> for Fault {
    fn from(error: reef::Error) -> Self {
        Self::new(reason_of(&error), error.to_string())
    }
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Self {
        let reason = match &error {
            ModelError::Device(error) => reason_of(error),
            ModelError::Refused { why, .. } => reason_of(why),
            ModelError::UnknownNetwork { .. } => Reason::NotFound,
            ModelError::OutOfRange { .. }
            | ModelError::Length { .. }
            | ModelError::Unended { .. } => Reason::Invalid,
            ModelError::Memory { .. } => Reason::NoMemory,
            error if error.is_unsupported() => Reason::Unsupported,
            _ => Reason::File,
        };
        Self::new(reason, error.to_string())
    }
}

fn reason_of(error: &reef::Error) -> Reason {
    use reef::Error as E;
    match error {
        E::OutOfMemory { .. } => Reason::NoMemory,
        E::DeviceLost { .. } => Reason::Lost,
        E::Level { .. } | E::Unsupported { .. } => Reason::Unsupported,
        E::NotFound(_) => Reason::NotFound,
        E::Invalid(_) => Reason::Invalid,
        E::Host { .. } => Reason::System,
        E::State { .. } | E::Busy { .. } => Reason::Busy,
        E::Cancelled => Reason::Cancelled,
        E::Driver { .. } => Reason::Driver,
        _ => Reason::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reason of an error of a file.
    fn reason(error: ModelError) -> Reason {
        Fault::from(error).reason
    }

    #[test]
    fn sound_file_that_is_not_read_is_unsupported() {
        let (file, at) = (String::from("a.onnx"), String::from("node \"n\" (Odd)"));
        let why = String::from("operator Odd is not supported");
        let broken = ModelError::Onnx { file: file.clone(), at: at.clone(), why: why.clone() };
        assert_eq!(reason(broken), Reason::File);
        assert_eq!(reason(ModelError::Unsupported { file, at, why }), Reason::Unsupported);
    }

    #[test]
    fn refusal_of_the_device_has_its_reason() {
        let refused = |why| ModelError::Refused { node: "n".into(), why };
        let no_kernel = reef::Error::Unsupported { backend: "cpu", what: "a kernel".into() };
        assert_eq!(reason(refused(no_kernel)), Reason::Unsupported);
        let full = reef::Error::OutOfMemory { backend: "cpu", asked: 1 };
        assert_eq!(reason(refused(full)), Reason::NoMemory);
    }
}
