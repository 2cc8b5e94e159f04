//! Whose error it is: of whoever typed the command, or of the work.

use reef::models;
use std::fmt::{self, Display};

/// An error of whoever typed the command.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Whether whoever typed the command can mend the error.
pub(crate) fn is_input(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<reef::Error>().is_some_and(is_asked)
            || cause.downcast_ref::<models::Error>().is_some_and(|error| match error {
                models::Error::Device(error) => is_asked(error),
                _ => true,
            })
            || is_refused(cause)
            || cause.is::<Usage>()
    })
}

/// Whether what was asked is wrong, and not what came of it.
fn is_asked(error: &reef::Error) -> bool {
    use reef::Error::{Invalid, Level, NotFound, Unsupported};
    matches!(error, Invalid(_) | NotFound(_) | Level { .. } | Unsupported { .. })
}

/// The same of the daemon, and of a node.
#[cfg(feature = "daemon")]
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    use reef_serve::Error::{Exists, Invalid, NotFound, Unimplemented};
    matches!(error.downcast_ref(), Some(Exists(_) | Invalid(_) | NotFound(_) | Unimplemented(_)))
        || matches!(error.downcast_ref(), Some(reef_k8s::Error::Refused(_)))
}

#[cfg(not(feature = "daemon"))]
fn is_refused(_: &(dyn std::error::Error + 'static)) -> bool {
    false
}
