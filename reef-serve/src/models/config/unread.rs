//! Names of what a configuration has and the daemon doesn't read.

use std::fmt;

/// Most names that are kept, and most signs of one.
const MAX_NAMES: usize = 32;
const MAX_SIGNS: usize = 64;

/// The first names, in short, and how many more there are: a client may send any number of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Unread {
    names: Vec<String>,
    more: usize,
}

impl Unread {
    pub(super) fn add(&mut self, name: &str) {
        match self.names.len() {
            0..MAX_NAMES => self.names.push(name.chars().take(MAX_SIGNS).collect()),
            _ => self.more += 1,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.names.join(", "))?;
        match self.more {
            0 => Ok(()),
            more => write!(to, ", and {more} more"),
        }
    }
}
