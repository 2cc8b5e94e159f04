//! Errors.

use std::fmt;

/// Definition or record that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub(crate) String);

impl Malformed {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}
