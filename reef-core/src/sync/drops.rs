//! Drops of values that clients own.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Drops a value that may own anything of a client, on a thread that serves others as well: a drop
/// that panics ends nothing else. The panic has been printed.
pub(crate) fn drop_caught<T>(value: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}
