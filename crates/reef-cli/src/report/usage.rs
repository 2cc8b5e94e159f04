//! Kinds of errors: wrong input, or failed work.

use reef::models;
use std::fmt::{self, Display};

/// An error in the command line or an input file.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Returns an error with its causes. A reader of networks names the key of a description, which is
/// the command's option.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    if error.chain().any(|cause| cause.is::<models::Error>()) {
        text.replace("`loop_bound`", "`--loop-bound`")
    } else {
        text
    }
}

/// Returns whether the caller can mend the error by other input.
pub(crate) fn is_input(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<reef::Error>().is_some_and(is_asked)
            || cause.downcast_ref::<models::Error>().is_some_and(|error| match error {
                models::Error::Device(error) => is_asked(error),
                _ => true,
            })
            || cause.downcast_ref::<reef_snapshot::Error>().is_some_and(is_wrong_snapshot)
            || is_refused(cause)
            || cause.is::<Usage>()
    })
}

/// Returns whether the request itself is wrong, instead of its execution.
fn is_asked(error: &reef::Error) -> bool {
    use reef::Error::{Invalid, Level, NotFound, Unsupported};
    matches!(error, Invalid(_) | NotFound(_) | Level { .. } | Unsupported { .. })
}

/// Like [`is_asked`], for errors of snapshots.
fn is_wrong_snapshot(error: &reef_snapshot::Error) -> bool {
    match error {
        reef_snapshot::Error::Device(error) => is_asked(error),
        reef_snapshot::Error::Locked { .. } => false,
        _ => true,
    }
}

/// Like [`is_asked`], for errors of the daemon and of a Kubernetes node.
#[cfg(feature = "daemon")]
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    use reef_serve::Error::{Exists, Invalid, NotFound, Unimplemented, Unsupported};
    let is_wrong = |error: &reef_serve::Error| {
        matches!(error, Exists(_) | Invalid(_) | NotFound(_) | Unimplemented(_) | Unsupported(_))
    };
    error.downcast_ref::<reef_serve::Error>().is_some_and(is_wrong)
        || matches!(error.downcast_ref(), Some(reef_k8s::Error::Refused(_)))
}

#[cfg(not(feature = "daemon"))]
fn is_refused(_: &(dyn std::error::Error + 'static)) -> bool {
    false
}
