//! Errors of plugins.

use std::io;
use std::path::Path;

/// Why there is no plugin, or no longer one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot work on this node; nothing was done.
    #[error("{0}")]
    Refused(String),
    /// A socket, a file, or the kubelet.
    #[error("{0}")]
    Failed(String),
}

/// Result of functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn of(path: &Path, error: &io::Error) -> Self {
        Self::Failed(format!("{}: {error}", path.display()))
    }
}
