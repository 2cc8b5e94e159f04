//! A model's files that came with a load.

use crate::error::{Error, Result};
use crate::models::budget::{Budget, Reservation, within};
use crate::name::{self, shown};
use bytes::Bytes;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use tempfile::TempDir;

/// Most files of a load, parts of a file's name, bytes of a name, and of a part, as file systems
/// have them.
const MAX_FILES: usize = 256;
const MAX_PARTS: usize = 8;
const MAX_NAME: usize = 512;
const MAX_PART: usize = 255;

/// How folders begin, and the file in each that its daemon has locked for as long as it runs.
const PREFIX: &str = "reef-load-";
const LOCK: &str = ".lock";

/// A folder of the daemon's own with a folder for each version, as the repository has them. It is
/// removed, and its bytes are given back, when this is dropped.
#[derive(Debug)]
pub(crate) struct Upload {
    folder: TempDir,
    memory: Reservation,
    /// Tells others that the folder is in use; of a killed daemon the system ends it.
    _lock: File,
}

/// Removes the folders of this user's daemons that were killed.
pub(crate) fn remove_abandoned() {
    let own = rustix::process::getuid().as_raw();
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let is_one = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let is_own = || entry.metadata().is_ok_and(|of| of.is_dir() && of.uid() == own); // no link
        if is_one && is_own() {
            remove_if_abandoned(&entry.path());
        }
    }
}

/// Without a lock in it, it may be one that is being made.
fn remove_if_abandoned(folder: &Path) {
    let Ok(lock) = File::open(folder.join(LOCK)) else { return };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    let removed = std::fs::remove_dir_all(folder);
    let folder = folder.display();
    match removed {
        Ok(()) => tracing::info!(%folder, "files of a load whose daemon was killed, removed"),
        Err(error) => tracing::warn!(%folder, %error, "files of a load whose daemon was killed"),
    }
}

/// A lock in `folder`, which is taken before anybody sees it.
fn locked(folder: &Path) -> std::io::Result<File> {
    let unseen = folder.join(".new");
    let lock = File::create_new(&unseen)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    std::fs::rename(unseen, folder.join(LOCK))?;
    Ok(lock)
}

impl Upload {
    /// Writes these files of a model: their names, such as `1/model.onnx`, and what is in them.
    ///
    /// # Errors
    ///
    /// `Invalid` with a name that leads elsewhere or is too long; `Exhausted`; `NoSpace`; `Failed`
    /// if they can't be written.
    pub(super) fn write(
        model: &str,
        files: &[(String, Bytes)],
        budget: &Budget,
        most: u64,
    ) -> Result<Self> {
        if files.len() > MAX_FILES {
            let text = format!("{} files in a load, {MAX_FILES} are possible", files.len());
            return Err(Error::Invalid(text));
        }
        let places = files.iter().map(|(name, _)| place(name)).collect::<Result<Vec<_>>>()?;
        let bytes = files.iter().map(|(_, content)| content.len() as u64).sum();
        let what = format!("model {model}, with its files,");
        within(&what, bytes, most)?;
        let memory = budget.reserve(&what, bytes)?; // they may lie in memory
        let failed = |e| Error::written("files of a load", &e);
        let own = Permissions::from_mode(0o700); // weights are nobody else's to read
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

    /// Where the folders of the versions are.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Each has a folder of its own.
impl PartialEq for Upload {
    fn eq(&self, other: &Self) -> bool {
        self.path() == other.path()
    }
}

impl Eq for Upload {}

/// Where a file of this name lies in the folder: behind its version, and nowhere else.
fn place(name: &str) -> Result<PathBuf> {
    let wrong = |why: &str| {
        let shown = shown(name);
        Err(Error::Invalid(format!("file {shown:?}: {why}, VERSION/NAME is wanted")))
    };
    if name.contains(['\0', '\\']) {
        return wrong("no name of a file");
    }
    let parts: Vec<_> = name.split('/').collect();
    if name.len() > MAX_NAME || parts.iter().any(|part| part.len() > MAX_PART) {
        return wrong(&format!("must have {MAX_NAME} bytes at most, and each part {MAX_PART}"));
    }
    let plain = |part: &&str| {
        let mut components = Path::new(part).components();
        matches!((components.next(), components.next()), (Some(Component::Normal(_)), None))
    };
    if !parts.iter().all(plain) || parts.len() > MAX_PARTS {
        return wrong("it leads elsewhere");
    }
    match name::version(parts[0]) {
        Ok(Some(version)) if parts.len() > 1 && version.to_string() == parts[0] => Ok(name.into()),
        _ => wrong("it has no version"),
    }
}

/// Writes a file that is not there yet.
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
    fn files_lie_behind_their_version_until_they_are_dropped() {
        let budget = Budget::new(100);
        let given = files(&["1/model.onnx", "2/more/weights.bin"]);
        let upload = Upload::write("m", &given, &budget, 0).unwrap();
        let path = upload.path().to_path_buf();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "nobody else reads them");
        assert_eq!(std::fs::read(path.join("2/more/weights.bin")).unwrap(), b"1234");
        assert_eq!(budget.used(), 8);
        drop(upload);
        assert!(!path.exists() && budget.used() == 0);
        let said = Upload::write("m", &given, &budget, 7).unwrap_err().to_string();
        assert_eq!(said, "memory budget: model m, with its files, needs 8 bytes, 7 are allowed");
        assert!(Upload::write("m", &given, &Budget::new(7), 0).is_err());
        assert!(Upload::write("m", &files(&["1/a", "1/a"]), &budget, 0).is_err(), "twice");
    }

    /// Locks are of open files, so one that is closed here is that of a killed daemon.
    #[test]
    fn files_of_a_killed_daemon_are_removed_and_no_others() {
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
    fn names_that_lead_elsewhere_are_refused() {
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
            assert!(said.ends_with("VERSION/NAME is wanted"), "{said}");
        }
        let said = Upload::write("m", &files(&["1/../../etc/x"]), &budget, 0).unwrap_err();
        let want = "file \"1/../../etc/x\": it leads elsewhere, VERSION/NAME is wanted";
        assert_eq!(said.to_string(), want);
        assert_eq!(budget.used(), 0);
    }
}
