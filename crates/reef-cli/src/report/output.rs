//! Lines on stdout.

use anyhow::Context;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::path::Path;

/// Failure of stdout.
#[derive(Debug)]
struct Unprinted(io::Error);

impl Display for Unprinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stdout: {}", self.0)
    }
}

impl std::error::Error for Unprinted {}

pub(crate) fn print(line: impl Display) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout(), "{line}").map_err(Unprinted)?)
}

/// Returns a text for a terminal: names and reasons in it may be of a file, a daemon or a server.
/// Control characters are replaced, but for ends of lines and tabs.
pub(crate) fn printable(text: &str) -> String {
    let is_kept = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().map(|c| if is_kept(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Prints text on stdout as it is.
pub(crate) fn print_text(text: &[u8]) -> anyhow::Result<()> {
    let mut to = io::stdout();
    Ok(to.write_all(text).and_then(|()| to.flush()).map_err(Unprinted)?)
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
    let cause = error.downcast_ref::<Unprinted>();
    cause.is_some_and(|Unprinted(cause)| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A helper that has ended closes its pipe as well.
    #[test]
    fn only_stdout_may_have_no_reader() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_unread(&Unprinted(closed()).into()));
        assert!(!is_unread(&Unprinted(io::Error::from(io::ErrorKind::StorageFull)).into()));
        assert!(!is_unread(&closed().into()));
        assert!(!is_unread(&anyhow::Error::new(closed()).context("the helper")));
    }
}
