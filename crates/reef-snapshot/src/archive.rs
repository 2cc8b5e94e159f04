//! Named pieces of memory in a folder, of anything: in the format of [`format`](crate::format).

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::format::file::{Snapshot, Unfinished};
use crate::format::layout::CHUNK;
use crate::format::manifest::{DeviceFacts, Manifest, QueueState};
use crate::format::writer::ChunkWriter;
use std::path::Path;

/// Name of the file of an archive in its folder.
pub const ARCHIVE_FILE: &str = "session.reef";

/// An archive that takes the place of the one in its folder when it is finished.
#[derive(Debug)]
pub struct ArchiveWriter(Unfinished);

/// Regions of an archive that is being written.
#[derive(Debug)]
pub struct Regions<'a> {
    chunks: ChunkWriter,
    unfinished: &'a Unfinished,
}

impl ArchiveWriter {
    /// Begins one in `folder`, which is made if it isn't there. Its file can be read by its owner
    /// alone.
    ///
    /// # Errors
    ///
    /// `Io`; `Locked` if another process writes there.
    pub fn begin(folder: impl AsRef<Path>) -> Result<Self> {
        let unfinished = Unfinished::begin(folder.as_ref(), ARCHIVE_FILE)?;
        unfinished.keep_private()?;
        Ok(Self(unfinished))
    }

    /// Returns what takes its regions.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn writer(&self) -> Result<Regions<'_>> {
        let chunks = self.0.writer()?;
        Ok(Regions { chunks, unfinished: &self.0 })
    }

    /// Puts the archive into its place. Returns the bytes of its file.
    ///
    /// # Errors
    ///
    /// `Io`. An archive that was there is whole then.
    pub fn finish(&self, regions: Regions<'_>) -> Result<u64> {
        let nothing = Digest::of(&[]);
        let manifest = Manifest {
            written_by: format!("reef {}", env!("CARGO_PKG_VERSION")),
            name: "session".into(),
            model: nothing,
            weights: nothing,
            plan: nothing,
            device: DeviceFacts { backend: "cuda".into(), name: String::new() },
            queue: QueueState { commands: 1, completed: 0, left: 0, partial: None },
            memory: Vec::new(),
            chunks: Vec::new(),
            note: serde_json::Value::Null,
        };
        self.0.finish(regions.chunks, manifest).map(|(bytes, _)| bytes)
    }
}

impl Regions<'_> {
    /// Writes a region.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn region(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.begin_region(name, bytes.len() as u64);
        bytes.chunks(CHUNK).try_for_each(|piece| self.piece(piece))
    }

    /// Begins a region of `bytes` bytes, whose [pieces](Self::piece) follow.
    pub fn begin_region(&mut self, name: &str, bytes: u64) {
        self.chunks.region(name, bytes, true);
    }

    /// Writes the next piece of the region: 2 MiB, but for the last one. Zeros, and pieces that are
    /// there already, take no room.
    ///
    /// # Errors
    ///
    /// `Io`.
    ///
    /// # Panics
    ///
    /// If no region has begun, or the piece is longer.
    pub fn piece(&mut self, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() <= CHUNK, "{} bytes, at most {CHUNK}", bytes.len());
        self.chunks.chunk(bytes).map_err(|why| self.unfinished.failed(&why))
    }
}

/// An archive on disk, all of which has been checked.
#[derive(Debug)]
pub struct Archive(Snapshot);

impl Archive {
    /// Opens the archive in `folder`, and checks all of its bytes.
    ///
    /// # Errors
    ///
    /// `Io`, `Version`; `Damaged` says which part is wrong.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Snapshot::open_file(folder.as_ref(), ARCHIVE_FILE).map(Self)
    }

    /// Returns the name of region `index`, if there is one.
    pub fn name(&self, index: usize) -> Option<&str> {
        self.0.manifest().memory.get(index).map(|region| &*region.name)
    }

    /// Gives the contents of region `index`, which must have this name, to `each`: the first byte
    /// of each piece, and the piece. Its first error ends the reading.
    ///
    /// # Errors
    ///
    /// `Damaged` if there is no such region, or the file has been changed; the errors of `each`.
    pub fn region(
        &mut self,
        index: usize,
        name: &str,
        each: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let region = self.0.manifest().memory.get(index).cloned();
        let region = region.filter(|region| region.name == name).ok_or_else(|| Error::Damaged {
            file: ARCHIVE_FILE.into(),
            why: format!("region {index}: must be {name:?}"),
        })?;
        self.0.reader.region(&region, |fault| self.0.refusal(fault), each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path) -> Vec<Vec<u8>> {
        let odd: Vec<u8> = (0..CHUNK + 5).map(|at| ((at * 7) >> 3) as u8).collect();
        let regions = vec![vec![1, 2, 3], vec![0; CHUNK + 9], odd.clone(), odd];
        let archive = ArchiveWriter::begin(folder).unwrap();
        let mut writer = archive.writer().unwrap();
        for (at, region) in regions.iter().enumerate() {
            writer.region(&format!("region {at}"), region).unwrap();
        }
        let bytes = archive.finish(writer).unwrap();
        assert!(bytes < 2 * CHUNK as u64, "zeros and copies take no room: {bytes}");
        regions
    }

    fn read(folder: &Path, count: usize) -> Result<Vec<Vec<u8>>> {
        let mut archive = Archive::open(folder)?;
        let mut region = |at: usize| {
            let mut all = Vec::new();
            archive.region(at, &format!("region {at}"), |offset, bytes| {
                assert_eq!(offset, all.len());
                all.extend_from_slice(bytes);
                Ok(())
            })?;
            Ok(all)
        };
        (0..count).map(&mut region).collect()
    }

    #[test]
    fn regions_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let regions = write(folder.path());
        assert!(read(folder.path(), 4).unwrap() == regions);
        let mut archive = Archive::open(folder.path()).unwrap();
        assert!(archive.region(0, "another", |_, _| Ok(())).is_err());
        assert!(archive.region(9, "region 9", |_, _| Ok(())).is_err());
    }

    /// A region of zeros takes no room in the file, and may have any length.
    #[test]
    fn first_error_of_the_reader_ends_the_reading() {
        let folder = tempfile::tempdir().unwrap();
        let archive = ArchiveWriter::begin(folder.path()).unwrap();
        let mut writer = archive.writer().unwrap();
        writer.region("zeros", &vec![0; 3 * CHUNK]).unwrap();
        archive.finish(writer).unwrap();
        let mut times = 0;
        let read = Archive::open(folder.path()).unwrap().region(0, "zeros", |_, _| {
            times += 1;
            Err(Error::Damaged { file: "zeros".into(), why: "is too long".into() })
        });
        assert_eq!(read.unwrap_err().to_string(), "zeros: is too long");
        assert_eq!(times, 1);
    }
}
