//! Errors of the input.

use std::path::PathBuf;

/// Error for which a simulation was refused. Each is one line with the request and what was there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file can't be read.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file isn't what it should be.
    #[error("{path}: {what}")]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// The fault and its place.
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
