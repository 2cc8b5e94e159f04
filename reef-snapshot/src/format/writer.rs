//! Writes the bytes of a snapshot, chunk by chunk.

use super::layout::{CHUNK, END, MAGIC, VERSION};
use super::manifest::{Chunk, Manifest};
use crate::digest::Digest;
use std::collections::HashMap;
use std::io::{self, Write};

/// Chunks that have been written.
#[derive(Debug)]
pub(crate) struct ChunkWriter<W: Write> {
    out: W,
    chunks: Vec<Chunk>,
    known: HashMap<Digest, u32>,
}

impl<W: Write> ChunkWriter<W> {
    /// Writes the header.
    pub(crate) fn begin(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        Ok(Self { out, chunks: Vec::new(), known: HashMap::new() })
    }

    /// Writes a chunk of at most [`CHUNK`] bytes, unless it is there. Returns its index, or `None`
    /// for zeros.
    pub(crate) fn chunk(&mut self, bytes: &[u8]) -> io::Result<Option<u32>> {
        debug_assert!(bytes.len() <= CHUNK);
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let digest = Digest::of(bytes);
        if let Some(&index) = self.known.get(&digest) {
            return Ok(Some(index));
        }
        self.out.write_all(bytes)?;
        let index = self.chunks.len() as u32;
        self.chunks.push(Chunk { digest, bytes: bytes.len() as u32 });
        self.known.insert(digest, index);
        Ok(Some(index))
    }

    /// Writes the manifest with the chunks, and the end. Returns the manifest.
    pub(crate) fn end(mut self, manifest: Manifest) -> io::Result<(W, Manifest)> {
        let manifest = Manifest { chunks: self.chunks, ..manifest };
        let text = serde_json::to_vec(&manifest)?;
        self.out.write_all(&text)?;
        self.out.write_all(&(text.len() as u64).to_le_bytes())?;
        self.out.write_all(Digest::of(&text).as_bytes())?;
        self.out.write_all(&END)?;
        Ok((self.out, manifest))
    }
}
