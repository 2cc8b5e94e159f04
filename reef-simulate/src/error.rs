//! What can be wrong with the input.

use std::path::PathBuf;

/// Why a simulation was refused. Each is one line that names what was asked and what was there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file can't be read.
    #[error("{path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file isn't what it should be.
    #[error("{path}: {what}")]
    Format {
        /// Which one.
        path: PathBuf,
        /// What stands where.
        what: String,
    },
    /// A value that makes no sense, or a name that there isn't.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    pub(crate) fn invalid<T>(what: impl Into<String>) -> Result<T, Self> {
        Err(Self::Invalid(what.into()))
    }
}
