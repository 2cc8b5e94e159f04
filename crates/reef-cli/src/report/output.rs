//! Lines on stdout.

use anyhow::Context;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

/// Prints a line on stdout.
pub(crate) fn print(line: impl Display) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{line}").context("stdout")
}

/// Writes a whole file in the place of an old one, which stays if that fails.
pub(crate) fn save(path: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    reef_files::write(path, bytes).with_context(|| path.display().to_string())
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
