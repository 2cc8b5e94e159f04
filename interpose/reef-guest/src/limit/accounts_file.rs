//! Accounts file of a device (in `$REEF_ACCOUNTS`): all processes of a user map it, and a daemon
//! reads it.

use super::accounts::{ACCOUNTS_BYTES, Accounts};
use crate::mmap::{InFile, Mapped, copy_of};
use reef_files::descriptors::above_standard;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fstat, ftruncate, open};
use rustix::io::{Errno, retry_on_intr};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which another process may be joining the same file.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

// SAFETY: the type consists of atomics alone.
unsafe impl InFile for Accounts {
    const BYTES: usize = ACCOUNTS_BYTES;
}

/// Open accounts file. Byte 0 is locked while a process joins. The next bytes belong to the
/// members, one each: a member keeps its byte locked as long as it lives, and the system unlocks it
/// when the process ends.
#[derive(Debug)]
pub struct AccountsFile {
    file: OwnedFd,
    /// Shared with child processes.
    pub(super) accounts: Arc<Mapped<Accounts>>,
}

impl AccountsFile {
    /// Opens a device's accounts file in a folder that is this user's alone. Both are created if
    /// they are missing.
    ///
    /// # Errors
    ///
    /// The folder is another user's, or others may write there. The file can't be created, or isn't
    /// an accounts file of this version.
    pub fn open(folder: &Path, device: &[u8; 16]) -> io::Result<Self> {
        let opened = own_folder(folder).and_then(|()| Self::open_file(&path(folder, device)));
        opened.map_err(named(folder))
    }

    /// Checks that accounts files can be kept in this folder, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open).
    pub fn check(folder: &Path) -> io::Result<()> {
        Self::open(folder, &[0; 16]).map(drop)
    }

    /// Opens the accounts file at a path with the rights of a user, for a program of that user.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open).
    pub(super) fn of_user(path: &Path, user: u32, group: u32) -> io::Result<Self> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let _rights = FileRights::of(user, group);
        let opened = folder_of(user, folder).and_then(|()| Self::open_file(path));
        opened.map_err(named(folder))
    }

    fn open_file(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = above_standard(open(path, flags, Mode::RUSR | Mode::WUSR)?)?;
        take_room(&file)?;
        let accounts = Arc::new(Mapped::new(&file)?);
        let opened = Self { file, accounts };
        opened.locked(|| opened.accounts.check())?.map_err(io::Error::other)?;
        Ok(opened)
    }

    /// Runs a function while no other process joins.
    pub(super) fn locked<T>(&self, run: impl FnOnce() -> T) -> io::Result<T> {
        let until = Instant::now() + JOIN_TIMEOUT;
        while !self.take(0)? {
            if Instant::now() > until {
                let why = format!("accounts file: locked by another process for {JOIN_TIMEOUT:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let result = run();
        self.let_go(0)?;
        Ok(result)
    }

    /// Locks a byte. Returns false if another process has the lock.
    pub(super) fn take(&self, byte: usize) -> io::Result<bool> {
        match self.set_lock(byte, libc::F_WRLCK) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => Ok(false),
            result => result.map(|()| true),
        }
    }

    pub(super) fn let_go(&self, byte: usize) -> io::Result<()> {
        self.set_lock(byte, libc::F_UNLCK)
    }

    /// Sets a lock of the open file, not of the process: a thread that closes another descriptor of
    /// the file doesn't end it.
    fn set_lock(&self, byte: usize, kind: i32) -> io::Result<()> {
        // SAFETY: all zero is a value of this struct.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        (lock.l_start, lock.l_len) = (byte as i64, 1);
        // SAFETY: an open file, and a struct that lives as long as the call.
        let code = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for AccountsFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Accounts file as a daemon reads it. A process that may write it may shorten it, which would kill
/// a process that has it mapped. So it is read into copies, and its locks are never waited for.
#[derive(Debug)]
pub(super) struct AccountsReader(File);

impl AccountsReader {
    /// Opens a device's accounts file in a folder that is this user's alone. It isn't created.
    pub(super) fn open(folder: &Path, device: &[u8; 16]) -> io::Result<Self> {
        let opened = own_folder(folder).and_then(|()| Self::open_file(&path(folder, device)));
        opened.map_err(named(folder))
    }

    fn open_file(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(above_standard(open(path, flags, Mode::empty())?)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(format!("{} is not a file", path.display())));
        }
        let opened = Self(file);
        opened.read()?.check().map_err(io::Error::other)?;
        Ok(opened)
    }

    /// Returns whether this is still the file of a device in that folder. After a deletion, other
    /// processes create a new one.
    pub(super) fn is_at(&self, folder: &Path, device: &[u8; 16]) -> bool {
        let there = std::fs::symlink_metadata(path(folder, device));
        let place = |of: Metadata| (of.dev(), of.ino());
        self.0.metadata().is_ok_and(|open| there.is_ok_and(|there| place(open) == place(there)))
    }

    /// Returns a copy of the contents.
    pub(super) fn read(&self) -> io::Result<Box<Accounts>> {
        copy_of(&self.0)
    }

    /// Writes a process's overhead: memory that the process has already, so there is no check
    /// against the limit.
    pub(super) fn set_overhead(&self, member: usize, bytes: u64) -> io::Result<()> {
        self.0.write_all_at(&bytes.to_ne_bytes(), Accounts::overhead_at(member) as u64)
    }
}

/// Gives a file all of its blocks: a process is killed when it writes to mapped memory for which a
/// full file system has no block. Then gives a new one its length, which another process may do at
/// the same time.
fn take_room(file: &OwnedFd) -> io::Result<()> {
    const BYTES: u64 = ACCOUNTS_BYTES as u64;
    let there = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
    if (1..BYTES).contains(&there) {
        let why = format!("not accounts: must have {BYTES} bytes, got {there}");
        return Err(io::Error::other(why));
    }
    // Not the length: a refusal may leave a part of it.
    match retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, 0, BYTES)) {
        // This file system gives no blocks ahead, or a sandbox forbids the call.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {}
        taken => taken?,
    }
    if there == 0 {
        ftruncate(file, BYTES)?;
    }
    Ok(())
}

fn named(folder: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("accounts in {}: {error}", folder.display()))
}

fn path(folder: &Path, device: &[u8; 16]) -> PathBuf {
    let name: String = device.iter().map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!("{name}.accounts"))
}

/// Rights of a user for the files that this thread opens and makes, as long as the value lives. So
/// root follows no link of a user to a place where the user may make nothing. A process that may
/// not take them keeps its own.
struct FileRights;

impl FileRights {
    fn of(user: u32, group: u32) -> Self {
        // SAFETY: sets a number of this thread alone.
        unsafe { libc::setfsgid(group) };
        // SAFETY: as before.
        unsafe { libc::setfsuid(user) };
        Self
    }
}

impl Drop for FileRights {
    fn drop(&mut self) {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        // SAFETY: sets a number of this thread alone.
        unsafe { libc::setfsuid(user.as_raw()) };
        // SAFETY: as before.
        unsafe { libc::setfsgid(group.as_raw()) };
    }
}

fn own_folder(folder: &Path) -> io::Result<()> {
    folder_of(rustix::process::getuid().as_raw(), folder)
}

/// Creates the folder of a user, or checks that no other user can write there.
fn folder_of(user: u32, folder: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = std::fs::symlink_metadata(folder)?;
    let mode = found.mode() & 0o777;
    if !found.is_dir() || found.uid() != user || mode & 0o022 != 0 {
        let uid = found.uid();
        let why = format!(
            "must be a folder of user {user} that no other user can write, got user {uid}, mode {mode:o}"
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}
