//! Errors of snapshots: what is wrong with a file, or with the work that it is for.

use crate::digest::Digest;

/// Shorthand used by every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system could not read or write a file.
    #[error("{file}: {why}")]
    Io {
        /// Path as given.
        file: String,
        /// The system's words.
        why: String,
    },
    /// The file is cut short, changed, or no snapshot.
    #[error("{file}: {why}")]
    Damaged {
        /// Path as given.
        file: String,
        /// Part of the file, and the fault.
        why: String,
    },
    /// The file was written by another version, in another format.
    #[error("{file}: format must be {want}, got {have}")]
    Version {
        /// Path as given.
        file: String,
        /// Version of this program's format.
        want: u32,
        /// Version of the file's.
        have: u32,
    },
    /// Another process writes there.
    #[error("{file}: another process writes a snapshot there")]
    Locked {
        /// Path as given.
        file: String,
    },
    /// The network, its weights or its device are not those of the snapshot.
    #[error("{what} must be that of the snapshot, {want}, got {have}")]
    Other {
        /// The part that differs: `network`, `weights`, `device`.
        what: &'static str,
        /// Name or digest in the snapshot.
        want: String,
        /// Name or digest of what was given.
        have: String,
    },
    /// The work was stopped in the middle of a task, and is launched otherwise here.
    #[error(
        "the snapshot is in the middle of a task, at command {at} of {commands}, as {device} \
         launches it (plan {want}); this device launches it otherwise (plan {have}). Restore on \
         such a device, or write the snapshot between tasks (--drain)"
    )]
    Plan {
        /// The next command.
        at: u64,
        /// Commands of a task.
        commands: u64,
        /// Device that the snapshot was written on.
        device: String,
        /// Plan of the snapshot.
        want: Digest,
        /// Plan of the work that was given.
        have: Digest,
    },
    /// The commands of a queue are not those of the work that they shall belong to.
    #[error("command {position}: must be command {at} of the task that is stored, got another one")]
    Commands {
        /// Position in the queue.
        position: u64,
        /// Index in the task.
        at: usize,
    },
    /// The device's, or a queue's.
    #[error(transparent)]
    Device(#[from] reef_core::Error),
}

impl Error {
    pub(crate) fn io(file: &std::path::Path, why: &std::io::Error) -> Self {
        Self::Io { file: file.display().to_string(), why: why.to_string() }
    }
}
