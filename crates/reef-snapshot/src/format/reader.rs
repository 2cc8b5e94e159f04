//! Reads the bytes of a snapshot. All of them are checked before any is given out.

use super::layout::{CHUNK, END, HEADER, MAGIC, MAX_MANIFEST, TRAILER, VERSION};
use super::manifest::{Manifest, RegionState};
use super::writer::MAX_THREADS;
use crate::digest::Digest;
use crate::error::Error;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Chunks for which another thread is worth its start.
const CHUNKS_OF_A_THREAD: usize = 4;

/// Bytes that several threads may read.
pub(crate) trait Source: Sync {
    fn length(&self) -> io::Result<u64>;
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(bytes, at)
    }
}

impl Source for &[u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..bytes.len()));
        bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Fault of a file.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(io::Error),
    Damaged(String),
    Version(u32),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Damaged("is cut short".into()),
            _ => Self::Io(error),
        }
    }
}

type Result<T> = std::result::Result<T, Fault>;

/// A snapshot whose bytes were right when it was opened.
#[derive(Debug)]
pub(crate) struct Reader<R: Source> {
    file: R,
    manifest: Manifest,
    /// First byte of each chunk.
    offsets: Vec<u64>,
}

impl<R: Source> Reader<R> {
    /// Reads all of `file` and checks it.
    pub(crate) fn open(file: R) -> Result<Self> {
        let manifest = read_manifest(&file)?;
        let mut next = HEADER;
        let mut offset = |bytes: u32| {
            next += u64::from(bytes);
            next - u64::from(bytes)
        };
        let offsets = manifest.chunks.iter().map(|chunk| offset(chunk.bytes)).collect();
        let reader = Self { file, manifest, offsets };
        reader.check()?;
        Ok(reader)
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Checks all chunks, by several threads if there are many.
    fn check(&self) -> Result<()> {
        let next = AtomicUsize::new(0);
        let check = || {
            let mut buffer = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.offsets.len() {
                    return Ok(());
                }
                self.chunk(index, &mut buffer)?;
            }
        };
        let most = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let others = most.min(self.offsets.len() / CHUNKS_OF_A_THREAD).saturating_sub(1);
        thread::scope(|scope| {
            let others: Vec<_> = (0..others).map(|_| scope.spawn(check)).collect();
            let own = check();
            others.into_iter().fold(own, |found, other| {
                let other = other.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
                found.and(other)
            })
        })
    }

    /// Reads a chunk into `buffer`, and checks it: the file may have been changed since it was
    /// opened.
    fn chunk(&self, index: usize, buffer: &mut Vec<u8>) -> Result<()> {
        let chunk = self.manifest.chunks[index];
        buffer.resize(chunk.bytes as usize, 0);
        self.file.read_at(buffer, self.offsets[index])?;
        if Digest::of(buffer) != chunk.digest {
            let all = self.manifest.chunks.len();
            return Err(Fault::Damaged(format!("chunk {index} of {all}: its checksum is wrong")));
        }
        Ok(())
    }

    /// Gives the contents of a region to `write`, with the first byte of each part. A fault of the
    /// file becomes its `refusal`.
    pub(crate) fn region(
        &self,
        region: &RegionState,
        refusal: impl Fn(Fault) -> Error,
        mut write: impl FnMut(usize, &[u8]) -> std::result::Result<(), Error>,
    ) -> std::result::Result<(), Error> {
        let (mut offset, mut buffer) = (0, Vec::new());
        for index in &region.chunks {
            let length = CHUNK.min(region.bytes as usize - offset);
            match index {
                Some(index) => self.chunk(*index as usize, &mut buffer).map_err(&refusal)?,
                None => {
                    buffer.clear();
                    buffer.resize(length, 0);
                }
            }
            write(offset, &buffer)?;
            offset += length;
        }
        Ok(())
    }
}

/// The manifest, whose numbers fit each other and the file.
fn read_manifest(file: &impl Source) -> Result<Manifest> {
    let length = file.length()?;
    let magic: [u8; 8] = array(file, 0)?;
    if magic != MAGIC {
        return Err(Fault::Damaged("is no snapshot of a network".into()));
    }
    let version = u32::from_le_bytes(array(file, 8)?);
    if version != VERSION {
        return Err(Fault::Version(version));
    }
    let ends = || Fault::Damaged("is cut short".into());
    let trailer = length.checked_sub(TRAILER).filter(|&at| at >= HEADER).ok_or_else(ends)?;
    let bytes = u64::from_le_bytes(array(file, trailer)?);
    let digest = Digest::from_bytes(array(file, trailer + 8)?);
    if array::<8>(file, trailer + 40)? != END {
        return Err(ends());
    }
    let data = trailer - HEADER;
    if bytes > MAX_MANIFEST || bytes > data {
        let text = format!("manifest: length must be at most {}", data.min(MAX_MANIFEST));
        return Err(Fault::Damaged(text));
    }
    let mut text = vec![0; bytes as usize];
    file.read_at(&mut text, trailer - bytes)?;
    if Digest::of(&text) != digest {
        return Err(Fault::Damaged("manifest: its checksum is wrong".into()));
    }
    let manifest: Manifest = serde_json::from_slice(&text)
        .map_err(|error| Fault::Damaged(format!("manifest: {error}")))?;
    manifest.check(data - bytes).map_err(|why| Fault::Damaged(format!("manifest: {why}")))?;
    Ok(manifest)
}

fn array<const N: usize>(file: &impl Source, at: u64) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_at(&mut bytes, at)?;
    Ok(bytes)
}
