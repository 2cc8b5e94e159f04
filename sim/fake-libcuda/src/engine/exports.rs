//! Files that keep exported memory: it is there as long as one of them is open, in whichever
//! process.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd};

/// File that was given away. It has a lock that ends when all of its copies are closed, and this is
/// another opening of it.
#[derive(Debug)]
pub(crate) struct Export(File);

fn lock(file: &File, kind: i32) -> bool {
    // SAFETY: all zero is a value of this struct.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_len = 1;
    // SAFETY: an open file, and a struct that lives as long as the call.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) == 0 }
}

impl Export {
    /// A new file, with what is kept of it here.
    pub(crate) fn new() -> Option<(Self, File)> {
        // SAFETY: a name.
        let file = unsafe { libc::memfd_create(c"export".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: the file is new; a negative number is none.
        let file = (file >= 0).then(|| unsafe { File::from_raw_fd(file) })?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let own = OpenOptions::new().read(true).write(true).open(path).ok()?;
        lock(&file, libc::F_WRLCK).then_some((Self(own), file))
    }

    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.0, libc::F_WRLCK)
    }
}
