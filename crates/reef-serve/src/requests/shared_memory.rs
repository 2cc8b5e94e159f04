//! POSIX shared memory of a client, accessed by calls that can fail.
//!
//! A client can shrink its own shared memory at any time, and an access beyond its end would kill
//! the daemon with a bus error. So it is never mapped here. It is read and written with `pread` and
//! `pwrite`, which return an error instead, and cost the same one copy.

use crate::engine::call::FilePart;
use crate::error::{Error, Result};
use crate::net::identity::principal::Principal;
use crate::tenants::grant::plain;
use crate::tensor::short;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Maximum length of a key, in bytes.
const MAX_KEY_LEN: usize = 128;

/// Identity of a piece of memory, which may have several names one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// Opens shared memory by its key; it must be the client's own. It is opened once, and checked
/// afterwards, because the key may name another file by then.
///
/// # Errors
///
/// `Invalid` if the key is not a plain name or names something else; `NotFound`; `Denied` if it
/// belongs to another user.
pub(crate) fn open(key: &str, principal: &Principal) -> Result<(File, FileId)> {
    let wrong = |why: &str| Error::Invalid(format!("shared memory key {:?}: {why}", short(key)));
    let path = path(key).ok_or_else(|| wrong("must be a plain name"))?;
    let fd = rustix::fs::open(path, FLAGS, Mode::empty()).map_err(|e| match e {
        Errno::NOENT => Error::NotFound(format!("no shared memory {:?}", short(key))),
        Errno::ACCESS | Errno::PERM => {
            Error::Denied(format!("shared memory {:?}: permission denied", short(key)))
        }
        Errno::LOOP => wrong(LINK),
        Errno::ISDIR | Errno::NXIO | Errno::NODEV => wrong(OTHER_KIND),
        e => Error::system("shared memory", e),
    })?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| Error::system("fstat", e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(wrong(OTHER_KIND));
    }
    if stat.st_nlink > 1 {
        return Err(wrong(LINK)); // made by a user that may write to the folder
    }
    check_owner(key, &stat, principal)?;
    Ok((File::from(fd), FileId::of(&stat)))
}

/// Folder of POSIX shared memory. `shm_open` of rustix would follow links.
const FOLDER: &str = "/dev/shm";

/// Flags that follow no link and wait for no other end of a pipe.
const FLAGS: OFlags = OFlags::RDWR
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

const LINK: &str = "must not be a link";
const OTHER_KIND: &str = "must be shared memory, got another kind of file";

/// Returns the path that a key names; `None` if it is not a plain name.
fn path(key: &str) -> Option<String> {
    let plain = plain(key);
    let is_plain = !matches!(plain, "" | "." | "..") && !plain.contains(['/', '\0']);
    (is_plain && plain.len() <= MAX_KEY_LEN).then(|| format!("{FOLDER}/{plain}"))
}

/// Refuses memory that the client's user could not open by itself.
pub(super) fn check_owner(key: &str, stat: &Stat, principal: &Principal) -> Result<()> {
    let user = principal.uid().unwrap_or_else(|| rustix::process::getuid().as_raw());
    let own = Mode::RUSR | Mode::WUSR;
    if stat.st_uid != user {
        let text = format!("shared memory {:?}: belongs to another user", short(key));
        return Err(Error::Denied(text));
    }
    if user != 0 && !Mode::from_raw_mode(stat.st_mode).contains(own) {
        let text =
            format!("shared memory {:?}: its user must be able to read and write it", short(key));
        return Err(Error::Denied(text));
    }
    Ok(())
}

/// Checks that the memory is as long as claimed.
///
/// # Errors
///
/// `Invalid`, with both sizes.
pub(crate) fn check_size(file: &File, key: &str, offset: u64, bytes: u64) -> Result<()> {
    let there = file.metadata().map_err(|e| Error::system("fstat", e))?.len();
    let end = offset.checked_add(bytes);
    if bytes == 0 || end.is_none_or(|end| end > there) {
        return Err(Error::Invalid(format!(
            "shared memory {:?}: {bytes} bytes at {offset} must lie inside its {there} bytes",
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
    /// Wraps `bytes` at `begin`; errors name the region.
    pub(crate) fn new(file: Arc<File>, begin: u64, bytes: usize, region: String) -> Self {
        Self { file, begin, bytes, region }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns it for a process that reads it by itself, from a descriptor that cannot write.
    /// `None` if the system does not open the file once more.
    pub(crate) fn for_process(&self) -> Option<FilePart> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let file = Arc::new(File::from(file));
        Some(FilePart { file, offset: self.begin, length: self.bytes })
    }

    /// Reads at `offset`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the memory has shrunk since.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let done = self.file.read_exact_at(bytes, self.begin + offset as u64);
        done.map_err(|e| Error::Invalid(format!("region {:?}: {e}", self.region)))
    }

    /// Writes at `offset`.
    ///
    /// # Errors
    ///
    /// Errors of [`read`](Self::read).
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let done = self.file.write_all_at(bytes, self.begin + offset as u64);
        done.map_err(|e| Error::Invalid(format!("region {:?}: {e}", self.region)))
    }
}
