//! POSIX shared memory of a client, by calls that fail.
//!
//! A client keeps the right to shrink its own shared memory, and touching what is gone would kill the
//! daemon with a bus error. So it is never mapped here: it is read and written with `pread` and
//! `pwrite`, which give an error instead, and cost the same one copy.

use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use crate::tensor::short;
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use rustix::shm;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Longest key.
const MAX_KEY_LEN: usize = 128;

/// Opens shared memory by its key; it has to be the client's own.
///
/// # Errors
///
/// `Invalid` if the key is no plain name or names something else; `NotFound`; `Denied` if it belongs to another user.
pub(crate) fn open(key: &str, who: &Principal) -> Result<File> {
    let plain = key.strip_prefix('/').unwrap_or(key);
    if plain.is_empty() || plain.len() > MAX_KEY_LEN || plain.contains(['/', '\0']) || plain == ".."
    {
        return Err(Error::Invalid(format!("shared memory key {:?}: no plain name", short(key))));
    }
    let fd = shm::open(plain, shm::OFlags::RDWR, Mode::empty()).map_err(|e| match e {
        Errno::NOENT => Error::NotFound(format!("no shared memory {key:?}")),
        Errno::ACCESS => Error::Denied(format!("shared memory {key:?}: permission denied")),
        e => Error::system("shm_open", e),
    })?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| Error::system("fstat", e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Error::Invalid(format!("shared memory {key:?}: no memory")));
    }
    let owner = match who {
        Principal::User(uid) => *uid,
        _ => rustix::process::getuid().as_raw(),
    };
    if stat.st_uid != owner {
        return Err(Error::Denied(format!("shared memory {key:?} belongs to another user")));
    }
    Ok(File::from(fd))
}

/// The memory is as long as it was said to be.
///
/// # Errors
///
/// `Invalid` with both sizes if it isn't.
pub(crate) fn check_size(file: &File, key: &str, (offset, bytes): (u64, u64)) -> Result<()> {
    let there = file.metadata().map_err(|e| Error::system("fstat", e))?.len();
    let end = offset.checked_add(bytes);
    if bytes == 0 || end.is_none_or(|end| end > there) {
        return Err(Error::Invalid(format!(
            "shared memory {:?} has {there} bytes, {bytes} at {offset} are not inside",
            short(key)
        )));
    }
    Ok(())
}

/// A part of shared memory that holds one tensor.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    file: Arc<File>,
    begin: u64,
    bytes: usize,
    region: String,
}

impl Slice {
    /// `bytes` from `begin` on; errors will name the region.
    pub(crate) fn new(file: Arc<File>, begin: u64, bytes: usize, region: String) -> Self {
        Self { file, begin, bytes, region }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads from `offset` on.
    ///
    /// # Errors
    ///
    /// `Invalid` if the memory has shrunk since.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let done = self.file.read_exact_at(bytes, self.begin + offset as u64);
        done.map_err(|e| Error::Invalid(format!("region {:?}: {e}", self.region)))
    }

    /// Writes from `offset` on.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let done = self.file.write_all_at(bytes, self.begin + offset as u64);
        done.map_err(|e| Error::Invalid(format!("region {:?}: {e}", self.region)))
    }
}
