//! The folder of a daemon's sockets, with proof for both sides that no other user can put one
//! there.
//!
//! A client that finds a socket in a folder of another user would hand its input to that user. So
//! the folder and its sockets must belong to a trusted user, no other user may write there, and the
//! kernel must confirm that the listener is the same user.

use crate::error::{Error, Result};
use reef_guest::unix_peer::Peer;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Mode bits that let users other than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// Mode bit of folders in which a user may remove only its own files.
const STICKY: u32 = 0o1000;

/// Remedy for a folder that cannot have the sockets.
pub(crate) const ELSEWHERE: &str = "name another folder with --socket-dir";

/// Returns the folder of a daemon's sockets: the configured one, or the user's own.
pub fn folder(configured: Option<&Path>) -> PathBuf {
    let uid = rustix::process::getuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    // A relative one is of no use to processes in other folders, and to be ignored (XDG).
    let is_own = |dir: &PathBuf| dir.is_absolute() && !is_foreign(dir, uid);
    let runtime = runtime.map(PathBuf::from).filter(is_own);
    let runtime = runtime.map(|dir| dir.join("reef"));
    let default = || runtime.unwrap_or_else(|| std::env::temp_dir().join(format!("reef-{uid}")));
    configured.map_or_else(default, Path::to_path_buf)
}

/// Returns whether a folder is neither this user's nor root's, as the variable of the user before
/// `su` or `sudo -E`: a folder that is made there would keep that user out of it.
fn is_foreign(folder: &Path, user: u32) -> bool {
    std::fs::metadata(folder).is_ok_and(|facts| ![user, 0].contains(&facts.uid()))
}

/// Creates the folder of the sockets. Only the daemon's user may be able to write to it.
///
/// # Errors
///
/// `Failed`; `Exists` if another file is there; `Denied` if it belongs to another user, or other
/// users may write there.
pub fn make_folder(folder: &Path) -> Result<()> {
    let shown = folder.display();
    let wrong = |e: io::Error| match e.kind() {
        ErrorKind::AlreadyExists => {
            Error::Exists(format!("{shown}: must be a folder, got another file; {ELSEWHERE}"))
        }
        _ => Error::system(&shown.to_string(), e).map_text(|text| format!("{text}; {ELSEWHERE}")),
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrong)?;
    check_own(folder)
}

/// Refuses a folder to which users other than the daemon's may write.
///
/// # Errors
///
/// Errors of [`make_folder`].
pub(crate) fn check_own(folder: &Path) -> Result<()> {
    let owner = check_folder(folder)?;
    check_owner(folder, owner, &[rustix::process::getuid().as_raw()])
}

/// Returns the text of an error where no daemon listens, with the remedy: `command` starts one, and
/// `option` of the caller names another place.
pub fn no_daemon(place: impl Display, command: &str, option: &str) -> String {
    format!("no daemon at {place}: start `{command}` or name it with {option}")
}

/// Connects to a socket of the daemon in a folder after checking the owner of both. In the default
/// folder that must be the own user or root, in a configured folder its owner.
///
/// # Errors
///
/// `Denied` if another user could have put the socket there; `Unavailable` if no daemon listens.
pub fn connect(configured: Option<&Path>, socket: &str) -> Result<UnixStream> {
    let folder = folder(configured);
    let path = folder.join(socket);
    let gone = |error: io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            Error::Unavailable(no_daemon(path.display(), "reef serve", "--socket-dir"))
        }
        _ => Error::system(&path.display().to_string(), error),
    };
    std::fs::symlink_metadata(&folder).map_err(&gone)?;
    let owner = check_folder(&folder)?;
    if configured.is_none() {
        check_owner(&folder, owner, &[rustix::process::getuid().as_raw(), 0])?;
    }
    check_owner(&path, std::fs::symlink_metadata(&path).map_err(&gone)?.uid(), &[owner, 0])?;
    let stream = UnixStream::connect(&path).map_err(gone)?;
    let peer = Peer::of(&stream).map_err(|e| Error::system("SO_PEERCRED", e))?;
    check_owner(&path, peer.uid, &[owner, 0])?;
    Ok(stream)
}

/// Returns the owner of a folder that no other user may write to or replace.
fn check_folder(folder: &Path) -> Result<u32> {
    let wrong = |e| Error::system(&folder.display().to_string(), e);
    let facts = std::fs::symlink_metadata(folder).map_err(wrong)?;
    if !facts.is_dir() {
        return Err(Error::Denied(format!("{}: must be a folder", folder.display())));
    }
    if facts.mode() & OTHERS_WRITE != 0 {
        return Err(open_to_others(folder, facts.mode()));
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    let above = std::fs::metadata(parent.unwrap_or(Path::new("."))).map_err(wrong)?.mode();
    if above & OTHERS_WRITE != 0 && above & STICKY == 0 {
        return Err(open_to_others(parent.unwrap_or(Path::new(".")), above));
    }
    Ok(facts.uid())
}

fn open_to_others(folder: &Path, mode: u32) -> Error {
    let (path, mode) = (folder.display(), mode & 0o7777);
    Error::Denied(format!(
        "{path}: mode {mode:o}: other users must not be able to write there or replace sockets"
    ))
}

fn check_owner(path: &Path, owner: u32, trusted: &[u32]) -> Result<()> {
    if trusted.contains(&owner) {
        return Ok(());
    }
    Err(Error::Denied(format!(
        "{}: must belong to user {}, belongs to user {owner}",
        path.display(),
        trusted[0]
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::os::unix::net::UnixListener;

    /// Creates a folder for one test, with a socket.
    fn place(test: &str) -> (PathBuf, UnixListener) {
        let path = std::env::temp_dir().join(format!("reef-folder-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        make_folder(&path).unwrap();
        let listener = UnixListener::bind(path.join("x.sock")).unwrap();
        (path, listener)
    }

    fn mode(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn folder_writable_by_others_is_refused_by_both_sides() {
        let (path, _listener) = place("mode");
        connect(Some(&path), "x.sock").unwrap();
        for open in [0o777, 0o770, 0o702, 0o1777] {
            mode(&path, open);
            for said in [make_folder(&path), connect(Some(&path), "x.sock").map(drop)] {
                let said = said.unwrap_err().to_string();
                assert!(said.contains(&format!("mode {open:o}: other users must not")), "{said}");
            }
        }
        mode(&path, 0o755);
        connect(Some(&path), "x.sock").unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn folder_that_cannot_be_made_is_refused_with_the_remedy() {
        let (path, _listener) = place("file");
        let file = path.join("file");
        std::fs::write(&file, "precious").unwrap();
        let said = make_folder(&file).unwrap_err();
        let why = format!("{}: must be a folder, got another file; {ELSEWHERE}", file.display());
        assert_eq!(said, Error::Exists(why));
        let said = make_folder(&file.join("below")).unwrap_err().to_string();
        assert!(said.ends_with(ELSEWHERE), "{said}");
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn folder_replaceable_by_others_is_refused() {
        let (path, _listener) = place("above");
        let inner = path.join("inner");
        create_dir(&inner).unwrap();
        mode(&path, 0o777);
        assert!(make_folder(&inner).is_err());
        mode(&path, 0o1777);
        make_folder(&inner).unwrap();
        symlink(&inner, path.join("link")).unwrap();
        assert!(make_folder(&path.join("link")).is_err());
        std::fs::remove_dir_all(&path).unwrap();
    }

    /// Needs root, because only root can give files away.
    #[test]
    fn socket_or_folder_of_another_user_is_refused() {
        if !rustix::process::getuid().is_root() {
            return reef_conformance::skip("not root");
        }
        let (path, _listener) = place("owner");
        chown(path.join("x.sock"), Some(12345), None).unwrap();
        let said = connect(Some(&path), "x.sock").unwrap_err().to_string();
        assert!(said.ends_with("x.sock: must belong to user 0, belongs to user 12345"), "{said}");
        chown(&path, Some(12345), None).unwrap();
        assert!(is_foreign(&path, 0) && is_foreign(&path, 12344) && !is_foreign(&path, 12345));
        assert!(!is_foreign(&path.join("missing"), 0), "it can be made");
        let said = make_folder(&path).unwrap_err().to_string();
        assert!(said.ends_with("must belong to user 0, belongs to user 12345"), "{said}");
        std::fs::remove_dir_all(&path).unwrap();
    }
}
