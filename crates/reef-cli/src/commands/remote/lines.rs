//! Lines on stderr about connections that ended in an error.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Maximum number of lines in a second: unauthenticated peers can cause any number of errors.
const MAX_LINES: u64 = 10;

/// Lines of a server, at most [`MAX_LINES`] in a second.
pub(super) struct Lines {
    begin: Instant,
    count: Mutex<Count>,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { begin: Instant::now(), count: Mutex::default() }
    }

    /// Prints an error, if its second has room for a line.
    pub(super) fn print(&self, error: &dyn Display) {
        let second = self.begin.elapsed().as_secs();
        let line = self.count.lock().unwrap_or_else(PoisonError::into_inner).line(error, second);
        if let Some(line) = line {
            note!("reef: {line}");
        }
    }
}

/// Number of errors in the last second that had one.
#[derive(Default)]
struct Count {
    second: u64,
    errors: u64,
}

impl Count {
    /// Returns the line of an error in this second; `None` if others have taken its place. The
    /// next second's first line says how many were left out.
    fn line(&mut self, error: &dyn Display, second: u64) -> Option<String> {
        if second == self.second {
            self.errors += 1;
            return (self.errors <= MAX_LINES).then(|| error.to_string());
        }
        let left_out = self.errors.saturating_sub(MAX_LINES);
        *self = Self { second, errors: 1 };
        Some(match left_out {
            0 => error.to_string(),
            _ => format!("{error} (before it, {left_out} lines were left out)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_second_are_bounded() {
        let mut count = Count::default();
        let lines = (0..1000).filter_map(|_| count.line(&"refused", 5)).count();
        assert_eq!(lines as u64, MAX_LINES);
        let next = count.line(&"refused", 7);
        assert_eq!(next.as_deref(), Some("refused (before it, 990 lines were left out)"));
        assert_eq!(count.line(&"refused", 7).as_deref(), Some("refused"));
        assert_eq!(count.line(&"refused", 8).as_deref(), Some("refused"));
    }
}
