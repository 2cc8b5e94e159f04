//! Reads the bytes of a snapshot. All of them are checked before any is given out.

use super::layout::{CHUNK, END, HEADER, MAGIC, MAX_MANIFEST, TRAILER, VERSION};
use super::manifest::{Manifest, RegionState};
use crate::digest::Digest;
use std::io::{self, Read, Seek, SeekFrom};

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
pub(crate) struct Reader<R: Read + Seek> {
    file: R,
    manifest: Manifest,
    /// First byte of each chunk.
    offsets: Vec<u64>,
    buffer: Vec<u8>,
}

impl<R: Read + Seek> Reader<R> {
    /// Reads all of `file` and checks it.
    pub(crate) fn open(mut file: R) -> Result<Self> {
        let manifest = read_manifest(&mut file)?;
        let mut next = HEADER;
        let mut offset = |bytes: u32| {
            next += u64::from(bytes);
            next - u64::from(bytes)
        };
        let offsets = manifest.chunks.iter().map(|chunk| offset(chunk.bytes)).collect();
        let mut reader = Self { file, manifest, offsets, buffer: Vec::new() };
        for index in 0..reader.manifest.chunks.len() {
            reader.chunk(index)?;
        }
        Ok(reader)
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads a chunk, and checks it: the file may have been changed since it was opened.
    fn chunk(&mut self, index: usize) -> Result<&[u8]> {
        let chunk = self.manifest.chunks[index];
        self.buffer.resize(chunk.bytes as usize, 0);
        self.file.seek(SeekFrom::Start(self.offsets[index]))?;
        self.file.read_exact(&mut self.buffer)?;
        if Digest::of(&self.buffer) != chunk.digest {
            let all = self.manifest.chunks.len();
            return Err(Fault::Damaged(format!("chunk {index} of {all}: its checksum is wrong")));
        }
        Ok(&self.buffer)
    }

    /// Gives the contents of a region to `write`, with the first byte of each part.
    pub(crate) fn region<E: From<Fault>>(
        &mut self,
        region: &RegionState,
        mut write: impl FnMut(usize, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut offset = 0;
        for index in &region.chunks {
            let length = CHUNK.min(region.bytes as usize - offset);
            match index {
                Some(index) => write(offset, self.chunk(*index as usize)?)?,
                None => {
                    self.buffer.clear();
                    self.buffer.resize(length, 0);
                    write(offset, &self.buffer)?;
                }
            }
            offset += length;
        }
        Ok(())
    }
}

/// The manifest, whose numbers fit each other and the file.
fn read_manifest(file: &mut (impl Read + Seek)) -> Result<Manifest> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    let magic: [u8; 8] = array(file)?;
    if magic != MAGIC {
        return Err(Fault::Damaged("is no snapshot of a network".into()));
    }
    let version = u32::from_le_bytes(array(file)?);
    if version != VERSION {
        return Err(Fault::Version(version));
    }
    let ends = || Fault::Damaged("is cut short".into());
    let trailer = length.checked_sub(TRAILER).filter(|&at| at >= HEADER).ok_or_else(ends)?;
    file.seek(SeekFrom::Start(trailer))?;
    let bytes = u64::from_le_bytes(array(file)?);
    let digest = Digest::from_bytes(array(file)?);
    if array::<8>(file)? != END {
        return Err(ends());
    }
    let data = trailer - HEADER;
    if bytes > MAX_MANIFEST || bytes > data {
        let text = format!("manifest: length must be at most {}", data.min(MAX_MANIFEST));
        return Err(Fault::Damaged(text));
    }
    file.seek(SeekFrom::Start(trailer - bytes))?;
    let mut text = vec![0; bytes as usize];
    file.read_exact(&mut text)?;
    if Digest::of(&text) != digest {
        return Err(Fault::Damaged("manifest: its checksum is wrong".into()));
    }
    let manifest: Manifest = serde_json::from_slice(&text)
        .map_err(|error| Fault::Damaged(format!("manifest: {error}")))?;
    manifest.check(data - bytes).map_err(|why| Fault::Damaged(format!("manifest: {why}")))?;
    Ok(manifest)
}

fn array<const N: usize>(file: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
