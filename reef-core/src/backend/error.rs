//! One error type for all backends: a kind to react to, and what to tell a person.

use crate::backend::info::PreemptLevel;
use std::borrow::Cow;

/// Shorthand used by every fallible function of the workspace.
///
/// ```
/// use reef_core::{Device, Result};
/// use reef_cpu::Cpu;
///
/// fn units<D: Device>(options: &str) -> Result<u32> {
///     Ok(D::open(0, options)?.info().units)
/// }
///
/// assert_eq!(units::<Cpu>("units=3"), Ok(3));
/// assert!(units::<Cpu>("units=none").is_err());
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a device, a queue or a scheduler. Cheap to clone, because every waiter of a failed
/// queue gets a copy.
///
/// ```
/// use reef_core::{Device, Error};
/// use reef_cpu::Cpu;
///
/// match Cpu::open(0, "unit=2") {
///     Err(Error::Invalid(unit)) => {
///         assert_eq!(unit.argument, "cpu option \"unit\"");
///         assert!(unit.reason.ends_with("did you mean units?"), "{unit}");
///     }
///     other => panic!("an option that the device does not have: {other:?}"),
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device or host is out of memory.
    #[error("{backend}: out of memory: {asked} bytes asked")]
    OutOfMemory {
        /// Name of the backend.
        backend: &'static str,
        /// Bytes that were asked for.
        asked: usize,
    },
    /// The device stopped answering, or a kernel failed in a way that ends its queue.
    #[error("{backend}: device lost: {why}")]
    DeviceLost {
        /// Name of the backend.
        backend: &'static str,
        /// The vendor's call and code, or the kernel's panic message.
        why: String,
    },
    /// A preemption level deeper than something has.
    #[error("{backend}: level {asked:?} asked, the {what} supports {have:?}")]
    Level {
        /// Name of the backend.
        backend: &'static str,
        /// The part that doesn't reach as deep: `"device"`, `"preemptor"`, `"kernel without a
        /// guard"`.
        what: &'static str,
        /// The request.
        asked: PreemptLevel,
        /// The deepest that is there.
        have: PreemptLevel,
    },
    /// The backend can't do this on this device.
    #[error("{backend}: unsupported: {what}")]
    Unsupported {
        /// Name of the backend.
        backend: &'static str,
        /// The request.
        what: String,
    },
    /// No backend, device, library or kernel has this name.
    #[error("{0}")]
    NotFound(String),
    /// An argument cannot be used.
    #[error("{0}")]
    Invalid(InvalidArgument),
    /// The operating system refused something, such as a thread.
    #[error("{what}: {why}")]
    Host {
        /// The request.
        what: String,
        /// The system's message.
        why: String,
    },
    /// No device of several takes a client; the text says why not, for each.
    #[error("{0}")]
    Unplaced(String),
    /// A call that the present state doesn't allow, or the end of work in a state that must not be.
    #[error("{what}: {why}")]
    State {
        /// The call, or the part that ended.
        what: &'static str,
        /// The state, and the remedy if there is one.
        why: &'static str,
    },
    /// Closing with work left.
    #[error("closing with work in flight: {waiting} waiting, {in_flight} with the device")]
    Busy {
        /// Commands submitted, not launched.
        waiting: u64,
        /// Commands launched, not completed.
        in_flight: u64,
    },
    /// The work was cancelled because its client or its dispatcher went away.
    #[error("cancelled")]
    Cancelled,
    /// The vendor's library refused a call.
    #[error("{backend}: {call}: {name} (code {code})")]
    Driver {
        /// Name of the backend.
        backend: &'static str,
        /// The call, as in the vendor's manual.
        call: &'static str,
        /// The vendor's name of the code.
        name: String,
        /// The raw code.
        code: u32,
    },
}

impl Error {
    /// A [`Host`](Self::Host) of what was asked and what the system said.
    pub fn host(what: impl Into<String>, why: &std::io::Error) -> Self {
        Self::Host { what: what.into(), why: why.to_string() }
    }

    /// A [`State`](Self::State) of what was asked and what forbids it.
    pub const fn state(what: &'static str, why: &'static str) -> Self {
        Self::State { what, why }
    }

    /// An [`Invalid`](Self::Invalid) argument, and the reason for which it cannot be used.
    pub fn invalid(
        argument: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Invalid(InvalidArgument { argument: argument.into(), reason: reason.into() })
    }
}

/// Argument that cannot be used, and the reason.
///
/// ```
/// use reef_core::Error;
///
/// let error = Error::invalid("window", "must be from 1 to 4294967296, got 0");
/// assert_eq!(error.to_string(), "window: must be from 1 to 4294967296, got 0");
/// let Error::Invalid(invalid) = error else { panic!("{error}") };
/// assert_eq!(invalid.argument, "window");
/// assert!(invalid.reason.ends_with("got 0"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{argument}: {reason}")]
pub struct InvalidArgument {
    /// Name of the argument, or of the part of it that is wrong. Contains no `": "`, except within
    /// a name that comes from outside, such as a path.
    pub argument: Cow<'static, str>,
    /// Requirement, and the value that was given: `"must be from 1 to 8, got 9"`.
    pub reason: Cow<'static, str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_argument_has_fields_and_one_line() {
        let error = Error::invalid("command 3".to_owned(), "must be a launch");
        assert_eq!(error.to_string(), "command 3: must be a launch");
        let Error::Invalid(invalid) = &error else { panic!("{error}") };
        let fields = (&*invalid.argument, &*invalid.reason);
        assert_eq!(fields, ("command 3", "must be a launch"));
        assert_eq!(error, Error::invalid("command 3", "must be a launch"));
    }

    /// Every result has room for one.
    #[test]
    fn error_has_at_most_64_bytes() {
        assert!(size_of::<Error>() <= 64, "{} bytes", size_of::<Error>());
    }
}
