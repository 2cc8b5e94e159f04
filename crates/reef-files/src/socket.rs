//! Sockets' names in the file system.

use crate::read::kind;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The name of a socket, removed on drop unless another file has it by then.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode of the socket.
    id: (u64, u64),
}

impl SocketFile {
    /// Takes charge of the name of a socket that this process has just bound.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub fn of(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let id = id(&path)?;
        Ok(Self { path, id })
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if id(&self.path).is_ok_and(|id| id == self.id) {
            let _ = fs::remove_file(&self.path); // gone is fine
        }
    }
}

/// Device and inode of a file, of a link itself.
pub(crate) fn id(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|facts| (facts.dev(), facts.ino()))
}

/// Listens on a Unix socket at `path`. Replaces a socket without a listener.
///
/// # Errors
///
/// Returns the errors of [`clear`].
pub fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    clear(path)?;
    let listener = UnixListener::bind(path)?;
    Ok((listener, SocketFile::of(path)?))
}

/// Makes sure that nothing is at `path`: removes a socket that nothing listens on.
///
/// # Errors
///
/// An error of the system; `AddrInUse` if a process listens there; `AlreadyExists` if it is another
/// file, which stays.
pub fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(facts) if !facts.file_type().is_socket() => {
            let why = format!("must be absent or a socket, got {}", kind(&facts));
            return Err(io::Error::new(ErrorKind::AlreadyExists, why));
        }
        Ok(_) => {}
    }
    if is_listened_on(path)? {
        return Err(io::Error::new(ErrorKind::AddrInUse, "another process listens there"));
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()), // gone is fine
    }
}

/// Returns whether a process has the socket, of whichever type. Does not wait for it to accept.
fn is_listened_on(path: &Path) -> io::Result<bool> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => Ok(false),
        _ => Ok(true), // also if it has no room for one more, or admits another user alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn file_that_is_no_socket_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "precious").unwrap();
        symlink(&file, &link).unwrap();
        for (path, what) in [(&file, "a regular file"), (&link, "a symbolic link")] {
            let said = bind(path).unwrap_err().to_string();
            assert_eq!(said, format!("must be absent or a socket, got {what}"));
        }
        assert_eq!(fs::read(&link).unwrap(), b"precious");
    }

    #[test]
    fn socket_is_replaced_if_nothing_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        drop(UnixListener::bind(&path).unwrap()); // its name stays
        let (listener, name) = bind(&path).unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop((listener, name));
        assert!(!path.exists());
        let _other = UnixDatagram::bind(&path).unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse, "of another type");
    }

    #[test]
    fn name_that_another_file_has_by_now_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        let (_listener, name) = bind(&path).unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(name);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
}
