//! Folder of a suspended process: CRIU's images, and a description of them.
//!
//! | entry | content |
//! |---|---|
//! | `description` | a line `reef-checkpoint 1 HASH`, with the BLAKE3 of what follows: the record of the suspension, and length and BLAKE3 of each image, as JSON |
//! | `images/` | CRIU's files; its log and what it writes at a start are not described |
//!
//! A folder is written under another name and gets its own when all of it is on disk, so an
//! interrupted checkpoint leaves none. Everything is compared with the description before a process
//! is started.

use crate::criu::LOG;
use crate::error::Error;
use crate::record::Suspended;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Beginning of a description: a name, and the version of the format.
const MAGIC: &str = "reef-checkpoint";
const FORMAT: &str = "1";
const DESCRIPTION: &str = "description";
/// File that marks a folder as a draft, and its content.
const DRAFT: &str = "draft";
const DRAFT_MARK: &str = "unfinished reef-checkpoint\n";
/// Error for what is where a draft must be, and is not one.
const KEPT: &str = "must not exist yet, got something that no checkpoint has made";
/// Maximum length of the description.
const MAX_DESCRIPTION: u64 = 16 << 20;

/// Description of a folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Description {
    suspended: Suspended,
    images: BTreeMap<String, Image>,
}

/// File of CRIU's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Image {
    bytes: u64,
    /// BLAKE3, 64 hexadecimal digits.
    hash: String,
}

impl Image {
    fn of(path: &Path) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        let bytes = hasher.update_reader(reef_files::regular(path)?)?.count();
        Ok(Self { bytes, hash: hasher.finalize().to_hex().to_string() })
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> Error {
    let what = path.display().to_string();
    move |error| Error::Record { what: what.clone(), error }
}

/// Folder that is being written.
#[derive(Debug)]
pub(crate) struct Draft {
    folder: PathBuf,
    draft: PathBuf,
    is_finished: bool,
}

impl Draft {
    /// Begins a folder, which must not be there yet.
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
        if is_draft(&draft) {
            fs::remove_dir_all(&draft).map_err(at(&draft))?; // of an interrupted checkpoint
        }
        let parent = draft.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(at(parent))?;
        fs::create_dir(&draft).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => at(&draft)(io::Error::other(KEPT)),
            _ => at(&draft)(error),
        })?;
        let draft = Self { folder: folder.to_owned(), draft, is_finished: false };
        fs::write(draft.draft.join(DRAFT), DRAFT_MARK).map_err(at(&draft.draft))?;
        fs::create_dir(draft.images()).map_err(at(&draft.draft))?;
        Ok(draft)
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.draft.join("images")
    }

    /// Describes the images, and gives the folder its name.
    ///
    /// # Errors
    ///
    /// `Record`, the system's; then there is no folder.
    pub(crate) fn finish(mut self, suspended: &Suspended) -> Result<(), Error> {
        let images = describe(&self.images())?;
        let description = Description { suspended: suspended.clone(), images };
        let file = self.draft.join(DESCRIPTION);
        let text = serde_json::to_string_pretty(&description).map_err(io::Error::from);
        let headed = |text: String| format!("{MAGIC} {FORMAT} {}\n{text}", hash(text.as_bytes()));
        text.and_then(|text| fs::write(&file, headed(text))).map_err(at(&file))?;
        sync(&self.draft).map_err(at(&self.draft))?;
        fs::rename(&self.draft, &self.folder).map_err(at(&self.folder))?;
        self.is_finished = true;
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

/// Returns whether a folder is a draft of this user, which an interrupted checkpoint has left.
fn is_draft(folder: &Path) -> bool {
    let mut mark = String::new();
    let found = reef_files::own(folder.join(DRAFT), OpenOptions::new().read(true))
        .and_then(|file| file.take(DRAFT_MARK.len() as u64).read_to_string(&mut mark));
    !folder.is_symlink() && found.is_ok() && mark == DRAFT_MARK
}

/// Images of a folder by name.
fn describe(images: &Path) -> Result<BTreeMap<String, Image>, Error> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(images).map_err(at(images))? {
        let path = entry.map_err(at(images))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name != LOG && !name.starts_with("stats-") {
            found.insert(name, Image::of(&path).map_err(at(&path))?);
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

/// Reads a folder, and compares all images with their description. Blocks for the reading. Returns
/// the record, and the folder of the images.
///
/// # Errors
///
/// `Record`: a file is absent or altered, or the format is another one.
pub(crate) fn open(folder: &Path) -> Result<(Suspended, PathBuf), Error> {
    let file = folder.join(DESCRIPTION);
    let text = reef_files::read_to_string(&file, MAX_DESCRIPTION).map_err(at(&file))?;
    let wrong = |why: String| at(&file)(io::Error::other(why));
    let text = unwrapped(&text).map_err(wrong)?;
    let description: Description =
        serde_json::from_str(text).map_err(|error| wrong(format!("not a description: {error}")))?;
    let images = folder.join("images");
    for (name, expected) in &description.images {
        let path = images.join(name);
        if Path::new(name).file_name() != Some(name.as_ref()) {
            return Err(wrong(format!("{name:?} must be the name of an image")));
        }
        if Image::of(&path).map_err(at(&path))? != *expected {
            return Err(at(&path)(io::Error::other("it is not as it was written")));
        }
    }
    Ok((description.suspended, images))
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

    fn written() -> (tempfile::TempDir, PathBuf, Suspended) {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("saved");
        let record = Suspended::now(Process { pid: 1, start: 2 }, Vec::new(), Steps::default());
        let draft = Draft::new(&folder).unwrap();
        fs::write(draft.images().join("pages-1.img"), vec![7; 5000]).unwrap();
        fs::write(draft.images().join(LOG), "log").unwrap();
        assert!(!folder.exists(), "it has no name before it is whole");
        draft.finish(&record).unwrap();
        (parent, folder, record)
    }

    #[test]
    fn folder_is_read_as_it_was_written() {
        let (parent, folder, record) = written();
        let (found, images) = open(&folder).unwrap();
        assert_eq!((found, images), (record, folder.join("images")));
        let error = Draft::new(&folder).unwrap_err().to_string();
        assert!(error.ends_with("it must not exist yet"), "{error}");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "no draft stays");
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
        let killed = Draft::new(&folder).unwrap();
        fs::write(killed.images().join("pages-1.img"), "half").unwrap();
        std::mem::forget(killed);
        let draft = Draft::new(&folder).unwrap();
        assert_eq!(fs::read_dir(draft.images()).unwrap().count(), 0);
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
        fs::write(&file, text.replacen(" 1 ", " 9 ", 1)).unwrap();
        let error = open(&folder).unwrap_err().to_string();
        assert!(error.ends_with("format must be 1, got 9"), "{error}");
        fs::write(&file, "").unwrap();
        assert!(open(&folder).unwrap_err().to_string().ends_with("not a description"));
        fs::write(&file, text).unwrap();
        fs::remove_file(folder.join("images/pages-1.img")).unwrap();
        assert!(open(&folder).unwrap_err().to_string().contains("pages-1.img"));
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
