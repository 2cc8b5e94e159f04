//! Files of a model that came with a load.

use crate::error::{Error, Result};
use crate::models::budget::{Budget, Reservation, within};
use crate::name::{self, excerpt, is_file_name};
use bytes::Bytes;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Maximum number of files of a load, and of parts of a file's name; maximum bytes of a name, and
/// of a part as in file systems.
const MAX_FILES: usize = 256;
const MAX_PARTS: usize = 8;
const MAX_NAME_BYTES: usize = 512;
const MAX_PART_BYTES: usize = 255;

/// Prefix of the folders, and the file in each that its daemon has locked for as long as it runs.
const PREFIX: &str = "reef-load-";
const LOCK: &str = ".lock";

/// A temporary folder with a folder for each version, as in the repository. On drop it is removed,
/// and its bytes are returned.
#[derive(Debug)]
pub(crate) struct Upload {
    folder: TempDir,
    memory: Reservation,
    /// Marks the folder as in use; the system releases it if the daemon is killed.
    _lock: File,
}

/// Removes the folders of this user's daemons that were killed.
pub(crate) fn remove_abandoned() {
    let own = rustix::process::getuid().as_raw();
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let is_upload = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let is_own = || entry.metadata().is_ok_and(|of| of.is_dir() && of.uid() == own); // no link
        if is_upload && is_own() {
            remove_if_abandoned(&entry.path());
        }
    }
}

/// Removes a folder whose lock is free. A folder without a lock file may be in creation, and stays.
#[expect(clippy::disallowed_methods, reason = "in a folder of the daemon")]
fn remove_if_abandoned(folder: &Path) {
    let Ok(lock) = File::open(folder.join(LOCK)) else { return };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    let removed = std::fs::remove_dir_all(folder);
    let folder = folder.display();
    match removed {
        Ok(()) => tracing::info!(%folder, "removed files of a load whose daemon was killed"),
        Err(error) => {
            tracing::warn!(%folder, %error, "cannot remove files of a load whose daemon was killed")
        }
    }
}

/// Creates a lock in `folder`, which is taken before it becomes visible.
fn locked(folder: &Path) -> std::io::Result<File> {
    let unseen = folder.join(".new");
    let lock = File::create_new(&unseen)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    std::fs::rename(unseen, folder.join(LOCK))?;
    Ok(lock)
}

impl Upload {
    /// Writes these files of a model: their names, such as `1/model.onnx`, and their contents.
    ///
    /// # Errors
    ///
    /// `Invalid` with a name that leads elsewhere or is too long; `Exhausted`; `NoSpace`; `Failed`
    /// if they cannot be written.
    pub(super) fn write(
        model: &str,
        files: &[(String, Bytes)],
        budget: &Budget,
        max: u64,
    ) -> Result<Self> {
        if files.len() > MAX_FILES {
            let text = format!("files of a load must be at most {MAX_FILES}, got {}", files.len());
            return Err(Error::Invalid(text));
        }
        let places = files.iter().map(|(name, _)| place(name)).collect::<Result<Vec<_>>>()?;
        let bytes = files.iter().map(|(_, content)| content.len() as u64).sum();
        let what = format!("model {model}, with its files,");
        within(&what, bytes, max)?;
        let memory = budget.reserve(&what, bytes)?; // the file system may be in memory
        let failed = |e| Error::of_write("files of a load", &e);
        let own = Permissions::from_mode(0o700); // other users must not read weights
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(own).tempdir();
        let folder = folder.map_err(failed)?;
        let _lock = locked(folder.path()).map_err(failed)?;
        for (place, (_, content)) in places.iter().zip(files) {
            write(&folder.path().join(place), content).map_err(failed)?;
        }
        Ok(Self { folder, memory, _lock })
    }

    /// Bytes of its files.
    pub(in crate::models) fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// Returns the folder that holds the versions.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Equal if the folders are: each has one of its own.
impl PartialEq for Upload {
    fn eq(&self, other: &Self) -> bool {
        self.path() == other.path()
    }
}

impl Eq for Upload {}

/// Returns the path of a file in the folder: inside its version, and nowhere else.
fn place(name: &str) -> Result<PathBuf> {
    let wrong = |why: &str| {
        let shown = excerpt(name);
        Err(Error::Invalid(format!("file {shown:?}: {why} (VERSION/NAME)")))
    };
    if name.contains(['\0', '\\']) {
        return wrong("must be a file name");
    }
    let parts: Vec<_> = name.split('/').collect();
    if name.len() > MAX_NAME_BYTES || parts.iter().any(|part| part.len() > MAX_PART_BYTES) {
        return wrong(&format!(
            "must have at most {MAX_NAME_BYTES} bytes, and each part {MAX_PART_BYTES}"
        ));
    }
    if !parts.iter().all(|part| is_file_name(part)) || parts.len() > MAX_PARTS {
        return wrong("must stay in its version's folder");
    }
    match name::version(parts[0]) {
        Ok(Some(version)) if parts.len() > 1 && version.to_string() == parts[0] => Ok(name.into()),
        _ => wrong("must begin with a version"),
    }
}

/// Writes a new file.
fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    let mut file = File::create_new(path)?;
    std::io::Write::write_all(&mut file, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<(String, Bytes)> {
        names.iter().map(|&name| (name.into(), Bytes::from_static(b"1234"))).collect()
    }

    #[test]
    fn upload_is_in_version_folders_until_dropped() {
        let budget = Budget::new(100);
        let given = files(&["1/model.onnx", "2/more/weights.bin"]);
        let upload = Upload::write("m", &given, &budget, 0).unwrap();
        let path = upload.path().to_path_buf();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "no other user reads them");
        assert_eq!(std::fs::read(path.join("2/more/weights.bin")).unwrap(), b"1234");
        assert_eq!(budget.used(), 8);
        drop(upload);
        assert!(!path.exists() && budget.used() == 0);
        let said = Upload::write("m", &given, &budget, 7).unwrap_err().to_string();
        assert_eq!(
            said,
            "memory budget: model m, with its files, must have at most 7 bytes, got 8"
        );
        assert!(Upload::write("m", &given, &Budget::new(7), 0).is_err());
        assert!(Upload::write("m", &files(&["1/a", "1/a"]), &budget, 0).is_err(), "twice");
    }

    /// Locks belong to open files, so a closed one stands for that of a killed daemon.
    #[test]
    fn only_uploads_of_killed_daemons_are_removed() {
        let given = files(&["1/model.onnx"]);
        let upload = Upload::write("m", &given, &Budget::new(100), 0).unwrap();
        let other = |name: &str| {
            let folder = tempfile::Builder::new().prefix(name).tempdir().unwrap();
            std::fs::create_dir(folder.path().join("1")).unwrap();
            folder
        };
        let [killed, foreign] = [PREFIX, "reef-other-"].map(other);
        drop(locked(killed.path()).unwrap());
        drop(locked(foreign.path()).unwrap());
        let being_made = other(PREFIX);
        let link = std::env::temp_dir().join(format!("{PREFIX}link-{}", std::process::id()));
        std::os::unix::fs::symlink(foreign.path(), &link).unwrap();
        remove_abandoned();
        let left = [killed.path(), foreign.path(), being_made.path(), upload.path()];
        let left = left.map(Path::exists);
        std::fs::remove_file(&link).unwrap();
        assert_eq!(left, [false, true, true, true]);
        let _ = killed.keep(); // it is gone
    }

    #[test]
    fn file_name_outside_its_version_is_refused() {
        let budget = Budget::new(100);
        for name in [
            "",
            "/",
            "1",
            "1/",
            "/1/a",
            "../a",
            "1/../a",
            "1/./a",
            "1//a",
            "a/b",
            "01/a",
            "0/a",
            "-1/a",
            "model.toml",
            "1/a\0b",
            "1/..",
            "C:\\a",
            "1/a/b/c/d/e/f/g/h",
        ] {
            let said = Upload::write("m", &files(&[name]), &budget, 0).unwrap_err().to_string();
            assert!(said.ends_with(" (VERSION/NAME)"), "{said}");
        }
        let said = Upload::write("m", &files(&["1/../../etc/x"]), &budget, 0).unwrap_err();
        let want = "file \"1/../../etc/x\": must stay in its version's folder (VERSION/NAME)";
        assert_eq!(said.to_string(), want);
        assert_eq!(budget.used(), 0);
    }
}
