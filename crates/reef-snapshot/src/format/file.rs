//! The file in its folder: replaced as a whole, or not at all.

use super::layout::{MAGIC, VERSION};
use super::manifest::{Manifest, Position};
use super::reader::{Fault, Reader};
use super::writer::ChunkWriter;
use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Name of the file of a network's snapshot in its folder.
pub const FILE: &str = "network.reef";

/// End of the name of a file while it is written. A writer that was killed leaves it; the next one
/// takes it.
const UNFINISHED: &str = "unfinished";

/// Size and place of a snapshot that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of memory that they stand for.
    pub memory: u64,
    /// Place of the queue in its task.
    pub position: Position,
}

/// A snapshot on disk, all of which has been checked.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    pub(crate) reader: Reader<File>,
}

impl Snapshot {
    /// Opens the snapshot in `folder`, and checks all of its bytes.
    ///
    /// # Errors
    ///
    /// `Io`, `Version`; `Damaged` says which part is wrong.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_file(folder.as_ref(), FILE)
    }

    /// Opens a file of this name.
    pub(crate) fn open_file(folder: &Path, name: &str) -> Result<Self> {
        let path = folder.join(name);
        let file = reef_files::regular(&path).map_err(|why| Error::io(&path, &why))?;
        let reader = Reader::open(file).map_err(|fault| refusal(&path, fault))?;
        Ok(Self { path, reader })
    }

    /// Its contents, without the bytes of memory.
    pub fn manifest(&self) -> &Manifest {
        self.reader.manifest()
    }

    /// Place of the queue in its task.
    pub fn position(&self) -> Position {
        self.manifest().queue.position()
    }

    pub(crate) fn refusal(&self, fault: Fault) -> Error {
        refusal(&self.path, fault)
    }
}

/// Checks bytes as [`Snapshot::open`] does a file, for tests and fuzzing. Returns the manifest.
///
/// # Errors
///
/// Returns the errors of [`Snapshot::open`].
#[doc(hidden)]
pub fn check_bytes(bytes: &[u8]) -> Result<Manifest> {
    let reader = Reader::open(bytes);
    reader.map(|reader| reader.manifest().clone()).map_err(|fault| refusal(Path::new(FILE), fault))
}

fn refusal(path: &Path, fault: Fault) -> Error {
    let file = path.display().to_string();
    match fault {
        Fault::Io(why) => Error::Io { file, why: why.to_string() },
        Fault::Damaged(why) => Error::Damaged { file, why },
        Fault::Version(have) => Error::Version { file, want: VERSION, have },
    }
}

/// Refuses a file that is not empty and does not begin as a snapshot does: it is not ours.
fn check_mark(file: &File) -> io::Result<()> {
    let mut begin = [0; MAGIC.len()];
    if file.read_at(&mut begin, 0)? == 0 || begin == MAGIC {
        return Ok(());
    }
    Err(other_file())
}

/// Refuses to replace a file that is not a snapshot. Replacing follows no link, and leaves the
/// file's other names alone.
fn check_replaced(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_file() => check_mark(&reef_files::regular(path)?),
        Ok(_) => Err(other_file()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(why) => Err(why),
    }
}

fn other_file() -> io::Error {
    let why = "must be a snapshot to be replaced, got another file";
    io::Error::new(io::ErrorKind::AlreadyExists, why)
}

/// A file that takes the place of the snapshot in its folder when it is finished. Removed on drop
/// if it is not.
#[derive(Debug)]
pub(crate) struct Unfinished {
    folder: PathBuf,
    name: &'static str,
    file: File,
}

impl Unfinished {
    /// Begins one of this name in `folder`, which is made if it isn't there.
    ///
    /// The lock on it is held until it is finished or the process ends. Only its holder renames, so
    /// a file that is still called so when it is locked is not finished.
    pub(crate) fn begin(folder: &Path, name: &'static str) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|why| Error::io(folder, &why))?;
        let there = folder.join(name);
        check_replaced(&there).map_err(|why| Error::io(&there, &why))?;
        let path = folder.join(format!("{name}.{UNFINISHED}"));
        let failed = |why: io::Error| Error::io(&path, &why);
        let locked = || Error::Locked { file: folder.display().to_string() };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = reef_files::own(&path, &mut options).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(locked()),
            Err(TryLockError::Error(why)) => return Err(failed(why)),
        }
        let own = file.metadata().map_err(failed)?;
        match fs::metadata(&path) {
            Ok(there) if (there.dev(), there.ino()) == (own.dev(), own.ino()) => {}
            _ => return Err(locked()), // its writer has just finished it
        }
        check_mark(&file).map_err(failed)?;
        file.set_len(0).map_err(failed)?;
        Ok(Self { folder: folder.into(), name, file })
    }

    /// Lets no other user read it.
    pub(crate) fn keep_private(&self) -> Result<()> {
        let own = Permissions::from_mode(0o600);
        self.file.set_permissions(own).map_err(|why| self.failed(&why))
    }

    pub(crate) fn writer(&self) -> Result<ChunkWriter> {
        ChunkWriter::begin(&self.file).map_err(|why| self.failed(&why))
    }

    /// Ends the file, and puts it into its place: on the disk, then by its name, then that on the
    /// disk. Returns the length of the file.
    pub(crate) fn finish(
        &self,
        writer: ChunkWriter,
        manifest: Manifest,
    ) -> Result<(u64, Manifest)> {
        self.put(writer, manifest).map_err(|why| self.failed(&why))
    }

    fn put(&self, writer: ChunkWriter, manifest: Manifest) -> io::Result<(u64, Manifest)> {
        let manifest = writer.end(manifest)?;
        self.file.sync_all()?;
        fs::rename(self.unfinished(), self.folder.join(self.name))?;
        File::open(&self.folder)?.sync_all()?;
        Ok((self.file.metadata()?.len(), manifest))
    }

    pub(crate) fn failed(&self, why: &io::Error) -> Error {
        Error::io(&self.unfinished(), why)
    }

    fn unfinished(&self) -> PathBuf {
        self.folder.join(format!("{}.{UNFINISHED}", self.name))
    }
}

impl Drop for Unfinished {
    /// Another writer's file may have the name by now. This one has the lock on its own.
    fn drop(&mut self) {
        let path = self.unfinished();
        if let (Ok(own), Ok(there)) = (self.file.metadata(), fs::symlink_metadata(&path))
            && (own.dev(), own.ino()) == (there.dev(), there.ino())
        {
            let _ = fs::remove_file(path); // of no use, and it may have filled the disk
        }
    }
}
