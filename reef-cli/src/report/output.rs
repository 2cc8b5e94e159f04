//! Lines on stdout.

use anyhow::Context;
use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line on stdout.
pub(crate) fn print(line: impl Display) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{line}").context("stdout")
}

/// Whether the one who reads our output has seen enough, as `head` does.
pub(crate) fn is_unread(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
