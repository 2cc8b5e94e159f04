//! New files that go again if the work that needs them fails.

use crate::socket::id;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files and folders that were made. Removed on drop, unless they are [kept](Self::keep).
#[derive(Debug, Default)]
pub struct Created {
    /// In the order in which they were made.
    folders: Vec<PathBuf>,
    /// With device and inode: another file of that name stays.
    files: Vec<(PathBuf, (u64, u64))>,
}

impl Created {
    /// Makes a folder and those above it. One that is there already stays in any case.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub fn folder(&mut self, path: impl AsRef<Path>) -> io::Result<()> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.is_dir();
        let missing: Vec<_> = path.as_ref().ancestors().take_while(is_missing).collect();
        for folder in missing.into_iter().rev() {
            match fs::create_dir(folder) {
                Ok(()) => self.folders.push(folder.to_owned()),
                Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes a file under a name that nothing has.
    ///
    /// # Errors
    ///
    /// An error of the system; `AlreadyExists`, also for a link.
    pub fn file(&mut self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        let file = File::options().write(true).create_new(true).open(path)?;
        let facts = file.metadata()?;
        self.files.push((path.to_owned(), (facts.dev(), facts.ino())));
        Ok(file)
    }

    /// Leaves all where it is.
    pub fn keep(mut self) {
        self.folders.clear();
        self.files.clear();
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        for (path, made) in &self.files {
            if id(path).is_ok_and(|id| id == *made) {
                let _ = fs::remove_file(path); // gone is fine
            }
        }
        for folder in self.folders.iter().rev() {
            let _ = fs::remove_dir(folder); // what another program has put there stays
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_files_go_unless_they_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let [new, old] = ["a/b/new", "old"].map(|name| folder.path().join(name));
        fs::write(&old, "precious").unwrap();
        let make = || {
            let mut made = Created::default();
            made.folder(new.parent().unwrap()).unwrap();
            made.file(&new).unwrap();
            let taken = made.file(&old).unwrap_err();
            assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
            made
        };
        drop(make());
        assert!(!folder.path().join("a").exists());
        make().keep();
        assert!(new.is_file());
        assert_eq!(fs::read(&old).unwrap(), b"precious");
    }

    #[test]
    fn file_of_another_program_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (path, below) = (folder.path().join("a/b"), folder.path().join("a"));
        let mut made = Created::default();
        made.folder(&below).unwrap();
        made.file(&path).unwrap();
        fs::write(below.join("other"), "precious").unwrap();
        fs::rename(below.join("other"), &path).unwrap();
        drop(made);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
}
