//! Folders of processes by what they are valid for, within an upper bound of bytes.
//!
//! *In*: all that a process depends on. *Out*: a name for it, and its folder. *Invariant*: nothing
//! is removed but folders of this user that a checkpoint has written, drafts of those that were
//! interrupted, and empty folders in the place of one.

use crate::error::Error;
use crate::written::{files, start};
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Version of the driver, if there is one.
const DRIVER: &str = "/proc/driver/nvidia/version";
/// This program.
const PROGRAM: &str = "/proc/self/exe";
/// Folders of what Python has compiled: a start makes them.
const COMPILED: &str = "__pycache__";
/// Maximum number of files in a folder that a process depends on.
const MAX_FILES: usize = 100_000;

/// A folder with the folders of processes.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    max_bytes: u64,
    /// Locked while folders are removed.
    removal: Mutex<()>,
}

impl Store {
    /// Opens a folder, which is made if it is not there, and removes what interrupted checkpoints
    /// have left in it. Its folders take at most `max_bytes` bytes.
    ///
    /// # Errors
    ///
    /// `Record`: it belongs to another user, others may open it, or the system refuses.
    pub fn open(folder: &Path, max_bytes: u64) -> Result<Self, Error> {
        let failed = |error| Error::Record { what: folder.display().to_string(), error };
        let folder = std::path::absolute(folder).map_err(failed)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        let facts = folder.symlink_metadata().map_err(failed)?;
        let user = fs::metadata("/proc/self").map_err(failed)?.uid();
        if !facts.is_dir() || facts.uid() != user || facts.mode() & 0o077 != 0 {
            let (of, mode) = (facts.uid(), facts.mode() & 0o777);
            return Err(failed(io::Error::other(format!(
                "must be a folder of user {user} with mode 700, got user {of} and mode {mode:o}"
            ))));
        }
        let store = Self { folder, max_bytes, removal: Mutex::new(()) };
        for draft in store.entries().filter(|path| path.extension().is_some()) {
            let _ = files::remove_interrupted(&draft); // another daemon writes it
        }
        Ok(store)
    }

    /// Ends processes that starts from the folders have left whose parent was killed meanwhile.
    /// Blocks until they have ended, for a minute at most for each folder. Returns their numbers.
    pub fn end_interrupted(&self) -> Vec<u32> {
        let own = self.entries().filter(|folder| files::own_description(folder).is_some());
        own.flat_map(|folder| start::end_interrupted(&folder)).collect()
    }

    fn entries(&self) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path())
    }

    /// Returns the folder of a name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Notes that a folder was used now.
    pub fn note_use(&self, name: &str) {
        let file = files::own_description(&self.path(name));
        let _ = file.map(|file| file.set_modified(SystemTime::now())); // else it goes sooner
    }

    /// Removes a folder.
    ///
    /// # Errors
    ///
    /// `Record`: no checkpoint of this user has written it, or the system refuses.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let _removal = self.removal.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.path(name);
        let what = folder.display().to_string();
        files::remove(&folder).map_err(|error| Error::Record { what, error })
    }

    /// Removes folders until the rest is within the bound: those that are larger than it by
    /// themselves, then those that were unused for the longest time. Returns those that were
    /// removed.
    pub fn trim(&self) -> Vec<PathBuf> {
        let _removal = self.removal.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |path: PathBuf| {
            let used = files::own_description(&path)?.metadata().ok()?.modified().ok()?;
            let bytes = files::bytes(&path);
            Some((bytes <= self.max_bytes, used, bytes, path))
        };
        let mut all: Vec<(bool, SystemTime, u64, PathBuf)> =
            self.entries().filter_map(known).collect();
        all.sort();
        let mut sum = all.iter().fold(0_u64, |sum, (_, _, bytes, _)| sum.saturating_add(*bytes));
        let mut removed = Vec::new();
        for (_, _, bytes, path) in all {
            if sum <= self.max_bytes {
                break;
            }
            if files::remove(&path).is_ok() {
                sum = sum.saturating_sub(bytes);
                removed.push(path);
            }
        }
        removed
    }
}

/// Returns a name for all that a process depends on: its command with its environment and working
/// folder, the files that its command names and those in `folder` by name, size and time of their
/// last change, `facts`, the version of the driver, and this program.
///
/// Folders of what Python has compiled are left out, and other files outside of `folder` are not
/// known.
///
/// # Errors
///
/// An error of the system; `InvalidInput` if there are too many files.
pub fn name_of(command: &Command, folder: &Path, facts: &[u8]) -> io::Result<String> {
    let mut all = Parts(blake3::Hasher::new());
    all.add(facts);
    all.add(command.get_program().as_bytes());
    all.add_each(command.get_args().map(|arg| arg.as_bytes().to_vec()));
    all.add_each(command.get_envs().map(|(name, value)| {
        let value = value.unwrap_or_default();
        [name.as_bytes(), b"=", value.as_bytes()].concat()
    }));
    let at = command.get_current_dir().unwrap_or(Path::new(""));
    all.add(at.as_os_str().as_bytes());
    all.add_each(std::iter::once(command.get_program()).chain(command.get_args()).map(|word| {
        let facts = fs::metadata(at.join(word)).ok().filter(Metadata::is_file);
        facts.map(|facts| change_of(&facts)).unwrap_or_default()
    }));
    all.add(&fs::read(DRIVER).unwrap_or_default());
    all.add(env!("CARGO_PKG_VERSION").as_bytes());
    all.add(&change_of(&fs::metadata(PROGRAM)?));
    let mut count = 0;
    all.add_folder(folder, &mut count)?;
    Ok(all.0.finalize().to_hex().to_string())
}

/// Size and times of the last change of a file: the one that programs may set, as those that keep
/// the time of a copy, and the one of the system.
fn change_of(facts: &Metadata) -> Vec<u8> {
    let numbers = [
        facts.len().cast_signed(),
        facts.mtime(),
        facts.mtime_nsec(),
        facts.ctime(),
        facts.ctime_nsec(),
    ];
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Hash of texts, each of which is told from the next one by its length.
struct Parts(blake3::Hasher);

impl Parts {
    fn add(&mut self, part: &[u8]) {
        self.0.update(&(part.len() as u64).to_le_bytes()).update(part);
    }

    fn add_each(&mut self, parts: impl Iterator<Item = Vec<u8>>) {
        let parts: Vec<_> = parts.collect();
        self.add(&parts.len().to_le_bytes());
        parts.iter().for_each(|part| self.add(part));
    }

    /// Adds the files of a folder and of those in it. A link counts with the file that it names.
    fn add_folder(&mut self, folder: &Path, count: &mut usize) -> io::Result<()> {
        let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
        paths.sort();
        for path in paths {
            *count += 1;
            if *count > MAX_FILES {
                let text = format!("a model's folder must have at most {MAX_FILES} files");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            if path.file_name().is_some_and(|name| name == COMPILED) {
                continue;
            }
            self.add(path.as_os_str().as_bytes());
            let kind = path.symlink_metadata()?.file_type();
            if kind.is_dir() {
                self.add_folder(&path, count)?;
                continue;
            }
            match fs::metadata(&path) {
                Ok(facts) => self.add(&change_of(&facts)),
                Err(_) => self.add(b"no file"), // a link to nothing
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::files::Draft;
    use std::fs::File;
    use std::time::Duration;

    fn store(max_bytes: u64) -> (tempfile::TempDir, Store) {
        let parent = tempfile::tempdir().unwrap();
        let store = Store::open(&parent.path().join("checkpoints"), max_bytes).unwrap();
        (parent, store)
    }

    /// Writes a folder of 1000 bytes, which was used this number of seconds after others.
    fn write(store: &Store, name: &str, after: u64) {
        let draft = Draft::new(&store.path(name)).unwrap();
        fs::write(draft.images().join("pages-1.img"), vec![7; 1000]).unwrap();
        draft.finish(&[], Vec::new(), Vec::new(), None).unwrap();
        let used = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + after);
        let file = files::own_description(&store.path(name)).unwrap();
        file.set_modified(used).unwrap();
    }

    #[test]
    fn folders_that_were_unused_for_the_longest_time_go_first() {
        let (_parent, store) = store(2500);
        for (name, after) in [("b", 2), ("a", 3), ("c", 1)] {
            write(&store, name, after);
        }
        store.note_use("c");
        assert_eq!(store.trim(), [store.path("b")]);
        assert!(store.trim().is_empty(), "the rest is within the bound");
        store.remove("a").unwrap();
        assert!(!store.path("a").exists() && store.path("c").exists());
    }

    #[test]
    fn folder_that_never_fits_costs_no_other_one() {
        let (_parent, store) = store(2500);
        for (name, after) in [("a", 1), ("b", 2), ("large", 3)] {
            write(&store, name, after);
        }
        fs::write(store.path("large/images/pages-2.img"), vec![7; 2000]).unwrap();
        assert_eq!(store.trim(), [store.path("large")]);
        assert!(store.path("a").exists() && store.path("b").exists());
    }

    #[test]
    fn folder_that_no_checkpoint_has_written_stays() {
        let (_parent, store) = store(0);
        fs::create_dir(store.path("mine")).unwrap();
        fs::write(store.path("mine/images"), "precious").unwrap();
        fs::write(store.path("description"), "reef-checkpoint").unwrap();
        fs::create_dir(store.path("mine.new")).unwrap();
        fs::write(store.path("mine.new/chapter"), "precious").unwrap();
        write(&store, "other", 1);
        assert_eq!(store.trim(), [store.path("other")]);
        assert!(store.remove("mine").is_err());
        drop(Store::open(&store.folder, 0).unwrap());
        for name in ["mine/images", "mine.new/chapter"] {
            assert_eq!(fs::read(store.path(name)).unwrap(), b"precious", "{name}");
        }
    }

    #[test]
    fn draft_of_an_interrupted_checkpoint_is_removed() {
        let (_parent, store) = store(0);
        let draft = store.path("a.new");
        fs::create_dir(&draft).unwrap();
        fs::write(draft.join("draft"), "unfinished reef-checkpoint\n").unwrap();
        drop(Store::open(&store.folder, 0).unwrap());
        assert!(!draft.exists());
    }

    #[test]
    fn folder_that_others_may_open_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let (_parent, store) = store(0);
        fs::set_permissions(&store.folder, fs::Permissions::from_mode(0o750)).unwrap();
        let error = Store::open(&store.folder, 0).unwrap_err().to_string();
        assert!(error.contains(" with mode 700, got user ") && error.ends_with("750"), "{error}");
    }

    #[test]
    fn name_changes_with_all_that_a_process_depends_on() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.py"), "1").unwrap();
        let mut command = Command::new("python3");
        command.arg("model.py").env("A", "1").current_dir("/");
        let name = |command: &Command| name_of(command, folder.path(), b"facts").unwrap();
        let first = name(&command);
        assert_eq!((name(&command), first.len()), (first.clone(), 64));
        assert_ne!(name_of(&command, folder.path(), b"other").unwrap(), first);
        fs::create_dir(folder.path().join(COMPILED)).unwrap();
        fs::write(folder.path().join(COMPILED).join("model.pyc"), "2").unwrap();
        assert_eq!(name(&command), first, "a start has made it");
        let mut seen = vec![first];
        let mut differs = |name: String| {
            assert!(!seen.contains(&name), "{seen:?}");
            seen.push(name);
        };
        command.env("A", "2");
        differs(name(&command));
        command.arg("more");
        differs(name(&command));
        let script = tempfile::NamedTempFile::new().unwrap();
        command.arg(script.path());
        differs(name(&command));
        fs::write(script.path(), "1").unwrap();
        differs(name(&command));
        command.current_dir("/tmp");
        differs(name(&command));
        fs::write(folder.path().join("weights"), "1").unwrap();
        differs(name(&command));
        fs::write(folder.path().join("weights"), "12").unwrap();
        differs(name(&command));
        let file = File::options().write(true).open(folder.path().join("weights")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        differs(name(&command));
        // The system counts the time of a change in ticks of its clock.
        let changed = || (file.metadata().unwrap().ctime(), file.metadata().unwrap().ctime_nsec());
        let before = changed();
        while changed() == before {
            fs::write(folder.path().join("weights"), "34").unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        differs(name(&command));
    }
}
