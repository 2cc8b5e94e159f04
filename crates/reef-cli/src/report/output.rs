//! Lines on stdout.

use anyhow::Context;
use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line on stdout.
pub(crate) fn print(line: impl Display) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{line}").context("stdout")
}

/// A number with its noun, as English has it: `1 launch`, `2 launches`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let ending = match number {
        1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {noun}{ending}")
}

/// Returns whether the reader of our output has closed it, as `head` does.
pub(crate) fn is_unread(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
