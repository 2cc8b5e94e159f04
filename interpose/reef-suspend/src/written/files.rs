//! Folder of a suspended process: CRIU's images, and a description of them.
//!
//! | entry | content |
//! |---|---|
//! | `description` | a line `reef-checkpoint 2 HASH`, with the BLAKE3 of what follows: the records of the suspension, the accounts of limits, the numbers of processes and threads, for a process that its parent starts again its streams, and length and BLAKE3 of each image, as JSON |
//! | `images/` | CRIU's files; its log and what it writes at a start are not described |
//! | `start` | record of a start by a parent, while it runs |
//!
//! A folder is written under another name and gets its own when all of it is on disk, so an
//! interrupted checkpoint leaves none. The draft's mark is locked while it is written. Everything
//! is compared with the description before a process is started.

use crate::error::Error;
use crate::record::Suspended;
use crate::written::accounts::Account;
use crate::written::criu::{LOG, PID_FILE, Streams};
use crate::written::file_hash::{self, IsOver};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Beginning of a description: a name, and the version of the format.
const MAGIC: &str = "reef-checkpoint";
const FORMAT: &str = "2";
const DESCRIPTION: &str = "description";
const IMAGES: &str = "images";
/// File that marks a folder as a draft, and its content.
const DRAFT: &str = "draft";
const DRAFT_MARK: &str = "unfinished reef-checkpoint\n";
/// Error for what is where a draft must be, and is not one.
const KEPT: &str = "must not exist yet, got something that no checkpoint has made";
/// Error for a draft that another checkpoint has not finished.
const BUSY: &str = "must not be written by another checkpoint";
/// Record of a start that runs.
pub(crate) const START: &str = "start";
/// CRIU's image of the clocks.
const CLOCKS: &str = "timens-0.img";
/// Identity of the boot.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// Maximum length of the description.
const MAX_DESCRIPTION: u64 = 16 << 20;

/// Facts by which a parent starts a process again as its child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// Number of the process.
    pub process: u32,
    /// Its streams to the parent.
    pub streams: Streams,
    /// Text that the parent gets back at the start.
    pub note: String,
}

/// Description of a folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Description {
    /// Processes that were on a GPU.
    suspended: Vec<Suspended>,
    accounts: Vec<Account>,
    /// Of processes and threads. Folders of earlier builds have none.
    #[serde(default)]
    numbers: Vec<u32>,
    /// Set if its parent alone can start it.
    #[serde(default)]
    adoption: Option<Adoption>,
    /// Identity of the boot in which it was written. Folders of earlier builds have none.
    #[serde(default)]
    boot: String,
    images: BTreeMap<String, Image>,
}

/// Content of a folder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    /// Processes that were on a GPU.
    pub(crate) suspended: Vec<Suspended>,
    /// Slots of these and of their descendants.
    pub(crate) accounts: Vec<Account>,
    /// Numbers of all processes and of their threads, as far as they are known.
    pub(crate) numbers: Vec<u32>,
    /// Set if its parent alone can start it.
    pub(crate) adoption: Option<Adoption>,
    /// True if the system has not been started since.
    pub(crate) is_of_this_boot: bool,
    /// Folder of CRIU's images.
    pub(crate) images: PathBuf,
}

/// CRIU's image of the clocks, which is out of the way while a process starts.
///
/// With this image CRIU gives the process a time namespace, in which `CLOCK_MONOTONIC` and the
/// starts of processes are those of the time when it was written. REEF compares both between
/// processes. After another boot the process keeps such clocks: those of the system have gone back.
#[derive(Debug)]
pub(crate) struct HiddenClocks {
    image: PathBuf,
    hidden: PathBuf,
}

impl HiddenClocks {
    /// Takes the image out of the folder `images`, which is one of this boot. `None`: it stays, or
    /// there is none.
    pub(crate) fn new(images: &Path, is_of_this_boot: bool) -> Option<Self> {
        let (image, hidden) = (images.join(CLOCKS), images.with_file_name(CLOCKS));
        let is_hidden = is_of_this_boot && fs::rename(&image, &hidden).is_ok();
        is_hidden.then(|| Self { image, hidden })
    }
}

impl Drop for HiddenClocks {
    fn drop(&mut self) {
        let _ = fs::rename(&self.hidden, &self.image); // the folder may have been removed
    }
}

/// File of CRIU's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Image {
    bytes: u64,
    /// BLAKE3, 64 hexadecimal digits.
    hash: String,
}

impl Image {
    fn of(path: &Path, is_over: IsOver<'_>) -> io::Result<Self> {
        let (bytes, hash) = file_hash::of(path, is_over)?;
        Ok(Self { bytes, hash: hash.to_hex().to_string() })
    }
}

/// Returns an error of the system as one of this file.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Error {
    let what = path.display().to_string();
    move |error| Error::Record { what: what.clone(), error }
}

/// Folder that is being written.
#[derive(Debug)]
pub(crate) struct Draft {
    folder: PathBuf,
    draft: PathBuf,
    /// Locked for as long as it is open.
    mark: File,
    is_finished: bool,
}

impl Draft {
    /// Begins a folder, which must not be there yet. Only this user may open it: images have all
    /// that a process had in its memory.
    ///
    /// # Errors
    ///
    /// `Record`: it is there, or the system refuses.
    pub(crate) fn new(folder: &Path) -> Result<Self, Error> {
        if folder.exists() {
            return Err(at(folder)(io::Error::other("it must not exist yet")));
        }
        let mut name = folder.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let draft = folder.with_file_name(name);
        remove_interrupted(&draft).map_err(at(&draft))?;
        let parent = draft.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(at(parent))?;
        DirBuilder::new().mode(0o700).create(&draft).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => at(&draft)(io::Error::other(KEPT)),
            _ => at(&draft)(error),
        })?;
        let path = draft.join(DRAFT);
        let mark = File::options().write(true).create_new(true).open(&path).map_err(|error| {
            let _ = fs::remove_dir(&draft); // empty, or of another program
            at(&path)(error)
        })?;
        let draft = Self { folder: folder.to_owned(), draft, mark, is_finished: false };
        lock(&draft.mark, &path, BUSY).map_err(at(&draft.draft))?;
        // A file without the text is not taken for that of an interrupted checkpoint.
        (&draft.mark).write_all(DRAFT_MARK.as_bytes()).map_err(at(&path))?;
        fs::create_dir(draft.images()).map_err(at(&draft.draft))?;
        Ok(draft)
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.draft.join(IMAGES)
    }

    /// Describes the images, and gives the folder its name.
    ///
    /// # Errors
    ///
    /// `Record`, an error of the system; then there is no folder.
    pub(crate) fn finish(
        mut self,
        suspended: &[Suspended],
        accounts: Vec<Account>,
        numbers: Vec<u32>,
        adoption: Option<Adoption>,
    ) -> Result<(), Error> {
        let images = describe(&self.images())?;
        let suspended = suspended.to_vec();
        let boot = boot();
        let description = Description { suspended, accounts, numbers, adoption, boot, images };
        let file = self.draft.join(DESCRIPTION);
        let text = serde_json::to_string_pretty(&description).map_err(io::Error::from);
        let headed = |text: String| format!("{MAGIC} {FORMAT} {}\n{text}", hash(text.as_bytes()));
        text.and_then(|text| fs::write(&file, headed(text))).map_err(at(&file))?;
        sync(&self.draft).map_err(at(&self.draft))?;
        fs::rename(&self.draft, &self.folder).map_err(at(&self.folder))?;
        let settled = self.settle();
        if settled.is_err() {
            let _ = fs::rename(&self.folder, &self.draft); // it must not start a second process
        }
        self.is_finished = settled.is_ok();
        settled
    }

    /// Removes the mark, and has the folder's name on disk.
    fn settle(&self) -> Result<(), Error> {
        fs::remove_file(self.folder.join(DRAFT)).map_err(at(&self.folder))?;
        let parent = self.folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(at(parent))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_dir_all(&self.draft); // the next one removes what is left
        }
    }
}

/// Removes a draft that an interrupted checkpoint of this user has left. Another folder stays.
///
/// # Errors
///
/// An error of the system; the draft of a checkpoint that runs.
pub(crate) fn remove_interrupted(folder: &Path) -> io::Result<()> {
    let Some(mark) = mark_of(folder) else { return Ok(()) };
    lock(&mark, &folder.join(DRAFT), BUSY)?; // until it is gone
    fs::remove_dir_all(folder)
}

/// The mark of a draft of this user.
fn mark_of(folder: &Path) -> Option<File> {
    let mut text = String::new();
    let mark = reef_files::own(folder.join(DRAFT), OpenOptions::new().read(true)).ok()?;
    (&mark).take(DRAFT_MARK.len() as u64).read_to_string(&mut text).ok()?;
    (!folder.is_symlink() && text == DRAFT_MARK).then_some(mark)
}

/// Locks the mark of a draft, or of a start, unless it is another one by now: the one that had
/// locked it has removed it. `busy` is the error then, and while another one has locked it.
pub(crate) fn lock(mark: &File, path: &Path, busy: &'static str) -> io::Result<()> {
    match mark.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(io::Error::other(busy)),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let own = mark.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) if (there.dev(), there.ino()) == (own.dev(), own.ino()) => Ok(()),
        _ => Err(io::Error::other(busy)),
    }
}

/// Returns whether a file of CRIU's is described: its log and its figures are not.
fn is_image(name: &str) -> bool {
    name != LOG && !name.starts_with("stats-")
}

/// Images of a folder by name.
fn describe(images: &Path) -> Result<BTreeMap<String, Image>, Error> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(images).map_err(at(images))? {
        let path = entry.map_err(at(images))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_image(&name) {
            found.insert(name, Image::of(&path, &|| false).map_err(at(&path))?);
        }
    }
    Ok(found)
}

/// Has all of a folder on disk.
fn sync(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Reads a folder, and compares all images with their description. Blocks for the reading.
///
/// # Errors
///
/// `Record`: a file is absent, altered or not described, or the format is another one; of the kind
/// `Interrupted` once `is_over`, which is asked before each MiB.
pub(crate) fn open(folder: &Path, is_over: IsOver<'_>) -> Result<Written, Error> {
    let description = read_description(folder)?;
    let file = folder.join(DESCRIPTION);
    let wrong = |why: String| at(&file)(io::Error::other(why));
    let images = folder.join(IMAGES);
    let _ = fs::rename(folder.join(CLOCKS), images.join(CLOCKS)); // a start was interrupted
    for (name, expected) in &description.images {
        let path = images.join(name);
        if Path::new(name).file_name() != Some(name.as_ref()) {
            return Err(wrong(format!("{name:?} must be the name of an image")));
        }
        if Image::of(&path, is_over).map_err(at(&path))? != *expected {
            return Err(at(&path)(io::Error::other("it is not as it was written")));
        }
    }
    for entry in fs::read_dir(&images).map_err(at(&images))? {
        let path = entry.map_err(at(&images))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_known = name == PID_FILE || description.images.contains_key(&*name);
        if is_image(&name) && !is_known {
            return Err(at(&path)(io::Error::other("no checkpoint has written it")));
        }
    }
    let Description { suspended, accounts, numbers, adoption, boot: of, .. } = description;
    let is_of_this_boot = !of.is_empty() && of == boot();
    Ok(Written { suspended, accounts, numbers, adoption, is_of_this_boot, images })
}

/// Returns the numbers of the processes of a folder and of their threads. Reads no image.
///
/// # Errors
///
/// `Record`: the description is absent or altered, or the format is another one.
pub(crate) fn numbers(folder: &Path) -> Result<Vec<u32>, Error> {
    read_description(folder).map(|description| description.numbers)
}

fn read_description(folder: &Path) -> Result<Description, Error> {
    let file = folder.join(DESCRIPTION);
    let text = reef_files::read_to_string(&file, MAX_DESCRIPTION).map_err(at(&file))?;
    let wrong = |why: String| at(&file)(io::Error::other(why));
    let text = unwrapped(&text).map_err(wrong)?;
    serde_json::from_str(text).map_err(|error| wrong(format!("not a description: {error}")))
}

/// Returns the identity of this boot; empty if the system does not say it.
pub(crate) fn boot() -> String {
    fs::read_to_string(BOOT).unwrap_or_default()
}

/// Opens the description of a folder of this user, which no other one may open. `None`: it is
/// another folder.
pub(crate) fn own_description(folder: &Path) -> Option<File> {
    let text = reef_files::own(folder.join(DESCRIPTION), OpenOptions::new().read(true)).ok()?;
    let (facts, user) = (fs::symlink_metadata(folder).ok()?, text.metadata().ok()?.uid());
    let is_private = facts.is_dir() && facts.uid() == user && facts.mode() & 0o077 == 0;
    let mut begin = String::new();
    (&text).take(MAGIC.len() as u64).read_to_string(&mut begin).ok()?;
    (is_private && begin == MAGIC).then_some(text)
}

/// Removes a folder of this user that a checkpoint has written, and nothing else that is in it: the
/// images first, so that what is left of an interrupted removal is not used. An empty folder is the
/// rest of such a removal.
///
/// # Errors
///
/// An error of the system; `InvalidInput` for another folder.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    if own_description(folder).is_none() {
        let other = |_| io::Error::new(io::ErrorKind::InvalidInput, "no checkpoint has written it");
        return fs::remove_dir(folder).map_err(other);
    }
    match fs::remove_dir_all(folder.join(IMAGES)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {} // or it was removed before an interruption
    }
    if mark_of(folder).is_some() {
        fs::remove_file(folder.join(DRAFT))?; // of a checkpoint that was killed at its very end
    }
    for name in [CLOCKS, START] {
        let _ = fs::remove_file(folder.join(name)); // of a start that runs, or was interrupted
    }
    fs::remove_file(folder.join(DESCRIPTION))?;
    fs::remove_dir(folder)
}

/// Returns the bytes of the files of a folder that a checkpoint has written.
pub(crate) fn bytes(folder: &Path) -> u64 {
    let images = fs::read_dir(folder.join(IMAGES)).into_iter().flatten().flatten();
    let lengths = images.filter_map(|image| Some(image.metadata().ok()?.len()));
    lengths.fold(0, u64::saturating_add)
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Returns what follows the first line, which describes it.
fn unwrapped(text: &str) -> Result<&str, String> {
    let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
    match head.split(' ').collect::<Vec<_>>()[..] {
        [MAGIC, FORMAT, sum] if sum == hash(rest.as_bytes()) => Ok(rest),
        [MAGIC, FORMAT, _] => Err("it is not as it was written".into()),
        [MAGIC, format, _] => Err(format!("format must be {FORMAT}, got {format}")),
        _ => Err("not a description".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Process, Steps};
    use proptest::prelude::*;

    fn open(folder: &Path) -> Result<Written, Error> {
        super::open(folder, &|| false)
    }

    fn written() -> (tempfile::TempDir, PathBuf, Suspended) {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("saved");
        let record = Suspended::now(Process { pid: 1, start: 2 }, Vec::new(), Steps::default());
        let draft = Draft::new(&folder).unwrap();
        fs::write(draft.images().join("pages-1.img"), vec![7; 5000]).unwrap();
        fs::write(draft.images().join(LOG), "log").unwrap();
        assert!(!folder.exists(), "it has no name before it is whole");
        draft.finish(std::slice::from_ref(&record), Vec::new(), vec![1], None).unwrap();
        (parent, folder, record)
    }

    #[test]
    fn folder_is_read_as_it_was_written() {
        let (parent, folder, record) = written();
        let images = folder.join("images");
        let (accounts, numbers) = (Vec::new(), vec![1]);
        let (suspended, adoption, is_of_this_boot) = (vec![record], None, true);
        let expected = Written { suspended, accounts, numbers, adoption, is_of_this_boot, images };
        assert_eq!(open(&folder).unwrap(), expected);
        let error = Draft::new(&folder).unwrap_err().to_string();
        assert!(error.ends_with("it must not exist yet"), "{error}");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "no draft stays");
    }

    #[test]
    fn clocks_of_this_boot_are_those_of_the_system() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("saved");
        let draft = Draft::new(&folder).unwrap();
        fs::write(draft.images().join(CLOCKS), "clocks").unwrap();
        draft.finish(&[], Vec::new(), Vec::new(), None).unwrap();
        let Written { is_of_this_boot, images, .. } = open(&folder).unwrap();
        assert!(HiddenClocks::new(&images, false).is_none() && images.join(CLOCKS).exists());
        let hidden = HiddenClocks::new(&images, is_of_this_boot).unwrap();
        assert!(!images.join(CLOCKS).exists(), "CRIU makes no clocks of the process's own");
        drop(hidden);
        open(&folder).unwrap();
        let killed = || std::mem::forget(HiddenClocks::new(&images, true));
        killed();
        open(&folder).unwrap();
        killed();
        remove(&folder).unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn folder_of_another_boot_is_told() {
        let (_parent, folder, _) = written();
        let file = folder.join(DESCRIPTION);
        let text = fs::read_to_string(&file).unwrap();
        let other = unwrapped(&text).unwrap().replace(boot().trim_end(), "another");
        fs::write(&file, format!("{MAGIC} {FORMAT} {}\n{other}", hash(other.as_bytes()))).unwrap();
        assert!(!open(&folder).unwrap().is_of_this_boot);
    }

    #[test]
    fn folder_that_no_checkpoint_has_made_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let [folder, draft] = ["saved", "saved.new"].map(|name| parent.path().join(name));
        fs::create_dir(&draft).unwrap();
        fs::write(draft.join("chapter1"), "precious").unwrap();
        let error = Draft::new(&folder).unwrap_err().to_string();
        assert!(error.ends_with(KEPT), "{error}");
        assert_eq!(fs::read(draft.join("chapter1")).unwrap(), b"precious");
    }

    #[test]
    fn draft_of_a_killed_checkpoint_is_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("saved");
        let mut killed = Draft::new(&folder).unwrap();
        fs::write(killed.images().join("pages-1.img"), "half").unwrap();
        killed.is_finished = true; // nothing removes it
        killed.mark.unlock().unwrap(); // a child that another test starts has the file as well
        drop(killed);
        let draft = Draft::new(&folder).unwrap();
        assert_eq!(fs::read_dir(draft.images()).unwrap().count(), 0);
    }

    #[test]
    fn rest_of_a_killed_checkpoint_or_removal_is_removed() {
        let (_parent, folder, _) = written();
        fs::write(folder.join(DRAFT), DRAFT_MARK).unwrap(); // it has its name, and its mark
        open(&folder).unwrap();
        remove(&folder).unwrap();
        assert!(!folder.exists());
        fs::create_dir(&folder).unwrap(); // its description is gone
        remove(&folder).unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn draft_of_a_running_checkpoint_is_left_to_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("saved");
        let first = Draft::new(&folder).unwrap();
        fs::write(first.images().join("pages-1.img"), "half").unwrap();
        let error = Draft::new(&folder).unwrap_err().to_string();
        assert!(error.ends_with(BUSY), "{error}");
        assert_eq!(fs::read(first.images().join("pages-1.img")).unwrap(), b"half");
        drop(first);
        drop(Draft::new(&folder).unwrap());
    }

    /// CRIU reads files that it finds, described or not.
    #[test]
    fn image_that_no_checkpoint_has_written_is_refused() {
        let (_parent, folder, _) = written();
        for own in [LOG, PID_FILE, "stats-restore"] {
            fs::write(folder.join("images").join(own), "1").unwrap();
        }
        open(&folder).unwrap();
        fs::write(folder.join("images/inetsk.img"), "more").unwrap();
        let error = open(&folder).unwrap_err().to_string();
        assert!(error.ends_with("images/inetsk.img: no checkpoint has written it"), "{error}");
    }

    #[test]
    fn abandoned_draft_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        drop(Draft::new(&parent.path().join("saved")).unwrap());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn absent_image_and_other_format_are_named() {
        let (_parent, folder, _) = written();
        let file = folder.join(DESCRIPTION);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replacen(" 2 ", " 9 ", 1)).unwrap();
        let error = open(&folder).unwrap_err().to_string();
        assert!(error.ends_with("format must be 2, got 9"), "{error}");
        fs::write(&file, "").unwrap();
        assert!(open(&folder).unwrap_err().to_string().ends_with("not a description"));
        fs::write(&file, text).unwrap();
        fs::remove_file(folder.join("images/pages-1.img")).unwrap();
        assert!(open(&folder).unwrap_err().to_string().contains("pages-1.img"));
    }

    /// Else a start whose number is taken would read all of the memory before it is refused.
    #[test]
    fn numbers_are_known_without_the_images() {
        let (_parent, folder, _) = written();
        fs::remove_dir_all(folder.join(IMAGES)).unwrap();
        assert_eq!(numbers(&folder).unwrap(), [1]);
        assert!(open(&folder).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn flipped_bit_is_refused(place in any::<proptest::sample::Index>(), bit in 0..8_u8) {
            let (_parent, folder, _) = written();
            let files = [folder.join("images/pages-1.img"), folder.join(DESCRIPTION)];
            let lengths = files.each_ref().map(|file| fs::metadata(file).unwrap().len() as usize);
            let at = place.index(lengths[0] + lengths[1]);
            let (file, at) =
                if at < lengths[0] { (&files[0], at) } else { (&files[1], at - lengths[0]) };
            let mut bytes = fs::read(file).unwrap();
            bytes[at] ^= 1 << bit;
            fs::write(file, bytes).unwrap();
            prop_assert!(open(&folder).is_err(), "byte {at} of {}", file.display());
        }
    }
}
