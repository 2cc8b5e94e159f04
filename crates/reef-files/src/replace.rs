//! The writer of whole files.

use crate::read::{invalid, kind};
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Permissions that a new file takes over from the old one.
const MODE: u32 = 0o777;

/// Number in the next draft's name. Every writer of this process takes one.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A new file that takes another one's name when it is whole. Removed on drop if it has not.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    draft: PathBuf,
    file: File,
    is_placed: bool,
}

impl NewFile {
    /// Begins a file in the folder of `path`, under a name that is free.
    ///
    /// # Errors
    ///
    /// An error of the system; `InvalidInput` with what is at `path`, if it is not a regular file
    /// of this user. A link is not one.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let old = old(path)?;
        let (draft, file) = create(folder(path))?;
        let new = Self { path: path.to_owned(), draft, file, is_placed: false };
        if let Some(old) = old {
            new.take_over(&old)?;
        }
        Ok(new)
    }

    /// Takes over the permissions of the old file, whose user must be that of the new one: the
    /// file system may say another one than the process has.
    fn take_over(&self, old: &Metadata) -> io::Result<()> {
        let own = self.file.metadata()?;
        if old.uid() != own.uid() {
            let (user, other) = (own.uid(), old.uid());
            return Err(invalid(&format!("must belong to user {user}, got user {other}")));
        }
        if old.mode() & MODE == own.mode() & MODE {
            return Ok(());
        }
        self.file.set_permissions(Permissions::from_mode(old.mode() & MODE))
    }

    /// Waits until the storage has all that was written.
    ///
    /// # Errors
    ///
    /// An error of the system, such as a full disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Gives the new file its name. What had it before is gone.
    ///
    /// # Errors
    ///
    /// An error of the system; the old file is as it was.
    pub fn finish(mut self) -> io::Result<()> {
        self.sync()?;
        fs::rename(&self.draft, &self.path)?;
        self.is_placed = true;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = fs::remove_file(&self.draft); // this writer has made it
        }
    }
}

/// Writes a whole file, which takes the place of an old one only after its last byte.
///
/// # Errors
///
/// Returns the errors of [`NewFile::new`]; an error of the system. The old file is as it was.
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut new = NewFile::new(path)?;
    new.write_all(bytes.as_ref())?;
    new.finish()
}

/// Checks that a file may take this name, by a file in its folder that is removed again.
///
/// # Errors
///
/// Returns the errors of [`NewFile::new`].
pub fn replaceable(path: impl AsRef<Path>) -> io::Result<()> {
    NewFile::new(path).map(drop)
}

/// The regular file that may be replaced, if there is one.
fn old(path: &Path) -> io::Result<Option<Metadata>> {
    if path.file_name().is_none() {
        return Err(invalid("must name a file"));
    }
    let facts = match fs::symlink_metadata(path) {
        Ok(facts) => facts,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !facts.is_file() {
        return Err(invalid(&format!("must be absent or a regular file, got {}", kind(&facts))));
    }
    Ok(Some(facts))
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Creates a file under a name that nothing has, not even a link.
fn create(folder: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        let draft = folder.join(name(NEXT.fetch_add(1, Relaxed)));
        match File::options().write(true).create_new(true).open(&draft) {
            Ok(file) => return Ok((draft, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Name of a draft. It has its own length, as another name may have the longest.
fn name(number: u64) -> String {
    format!(".reef-{}-{number}.new", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn file_is_replaced_as_a_whole_with_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a".repeat(255));
        write(&path, "first").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let mut new = NewFile::new(&path).unwrap();
        new.write_all(b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first", "until the new one is whole");
        new.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::metadata(&path).unwrap().mode() & MODE, 0o600);
        assert_eq!(names(folder.path()).len(), 1);
    }

    #[test]
    fn unfinished_file_leaves_the_old_one_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, "old").unwrap();
        let mut new = NewFile::new(&path).unwrap();
        new.write_all(b"half").unwrap();
        drop(new);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let new = NewFile::new(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        new.finish().unwrap_err();
        assert!(path.is_dir());
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn links_at_names_of_drafts_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [path, precious] = ["a", "precious"].map(|name| folder.path().join(name));
        fs::write(&precious, "precious").unwrap();
        let begin = NEXT.load(Relaxed);
        for number in begin..begin + 100 {
            symlink(&precious, folder.path().join(name(number))).unwrap();
        }
        write(&path, "mine").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
    }

    #[test]
    fn fifo_link_or_folder_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, fifo] = ["file", "link", "fifo"].map(|name| folder.path().join(name));
        fs::write(&file, "precious").unwrap();
        symlink(&file, &link).unwrap();
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let why = |path: &Path| write(path, "mine").unwrap_err().to_string();
        assert_eq!(why(&link), "must be absent or a regular file, got a symbolic link");
        assert_eq!(why(&fifo), "must be absent or a regular file, got a FIFO");
        assert_eq!(why(folder.path()), "must be absent or a regular file, got a folder");
        let device = Path::new("/dev/null");
        assert_eq!(why(device), "must be absent or a regular file, got a device");
        assert_eq!(why(Path::new("..")), "must name a file");
        assert_eq!(fs::read(&file).unwrap(), b"precious");
        assert_eq!(names(folder.path()).len(), 3);
    }

    #[test]
    fn check_changes_nothing_and_sees_a_missing_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        replaceable(&path).unwrap();
        assert_eq!(names(folder.path()).len(), 0);
        write(&path, "old").unwrap();
        replaceable(&path).unwrap();
        assert_eq!((names(folder.path()).len(), fs::read(&path).unwrap()), (1, b"old".to_vec()));
        let missing = replaceable(folder.path().join("b/a")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn file_of_another_user_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "theirs").unwrap();
        if std::os::unix::fs::chown(&path, Some(7), None).is_err() {
            return; // root alone can make one
        }
        let (user, why) = (rustix::process::geteuid().as_raw(), write(&path, "mine").unwrap_err());
        assert_eq!(why.to_string(), format!("must belong to user {user}, got user 7"));
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(folder.path()), ["a"]);
    }
}
