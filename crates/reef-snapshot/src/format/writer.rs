//! Writes the bytes of a snapshot, chunk by chunk. Several threads digest chunks and write them, as
//! one alone is slower than the memory that they come from.

use super::layout::{CHUNK, END, HEADER, MAGIC, MAX_MANIFEST, VERSION};
use super::manifest::{Chunk, Manifest, RegionState};
use super::note;
use crate::digest::Digest;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Threads at most.
pub(super) const MAX_THREADS: usize = 8;

/// Regions whose chunks are being written.
#[derive(Debug)]
pub(crate) struct ChunkWriter {
    shared: Arc<Shared>,
    /// Chunks for the threads; they end when it is dropped.
    jobs: Option<SyncSender<Job>>,
    /// Buffers that the threads have written.
    spare: Receiver<Vec<u8>>,
    /// Buffers that may still be made.
    buffers: usize,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    file: File,
    index: Mutex<Index>,
}

/// Contents of the file, and their places.
#[derive(Debug)]
struct Index {
    memory: Vec<RegionState>,
    chunks: Vec<Chunk>,
    known: HashMap<Digest, u32>,
    /// Byte after the last chunk.
    end: u64,
    failed: Option<io::Error>,
}

/// A chunk, and its place in the region.
#[derive(Debug)]
struct Job {
    region: usize,
    at: usize,
    bytes: Vec<u8>,
}

impl ChunkWriter {
    /// Writes the header.
    pub(crate) fn begin(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        file.write_all_at(&MAGIC, 0)?;
        file.write_all_at(&VERSION.to_le_bytes(), MAGIC.len() as u64)?;
        let (memory, chunks) = (Vec::new(), Vec::new());
        let index = Index { memory, chunks, known: HashMap::new(), end: HEADER, failed: None };
        let shared = Arc::new(Shared { file, index: Mutex::new(index) });
        let count = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let (jobs, waiting) = sync_channel(count);
        let (done, spare) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let mut writer =
            Self { shared, jobs: Some(jobs), spare, buffers: 2 * count, threads: Vec::new() };
        for _ in 0..count {
            let (shared, waiting, done) = (writer.shared.clone(), waiting.clone(), done.clone());
            let named = thread::Builder::new().name("reef-snapshot".into());
            writer.threads.push(named.spawn(move || work(&shared, &waiting, &done))?);
        }
        Ok(writer)
    }

    /// Begins a region, whose chunks follow.
    pub(crate) fn region(&mut self, name: &str, bytes: u64, lasts: bool) {
        let region = RegionState { name: name.to_owned(), bytes, lasts, chunks: Vec::new() };
        self.shared.index.lock().memory.push(region);
    }

    /// Writes the region's next chunk of at most [`CHUNK`] bytes, unless it is zeros, or there. An
    /// error may be that of an earlier one.
    ///
    /// # Panics
    ///
    /// If no region has begun.
    pub(crate) fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(bytes.len() <= CHUNK);
        let (region, at) = {
            let mut index = self.shared.index.lock();
            if let Some(why) = index.failed.take() {
                return Err(why);
            }
            let region = index.memory.len() - 1;
            let chunks = &mut index.memory[region].chunks;
            chunks.push(None);
            (region, chunks.len() - 1)
        };
        let ended = || io::Error::other("a thread that writes has ended");
        let mut buffer = if self.buffers > 0 {
            self.buffers -= 1;
            Vec::with_capacity(CHUNK)
        } else {
            self.spare.recv().map_err(|_| ended())?
        };
        buffer.clear();
        buffer.extend_from_slice(bytes);
        let jobs = self.jobs.as_ref().ok_or_else(ended)?;
        jobs.send(Job { region, at, bytes: buffer }).map_err(|_| ended())
    }

    /// Waits for the chunks, and writes the manifest with them and the regions, and the end.
    /// Returns the manifest.
    pub(crate) fn end(mut self, manifest: Manifest) -> io::Result<Manifest> {
        self.join();
        let mut index = self.shared.index.lock();
        if let Some(why) = index.failed.take() {
            return Err(why);
        }
        let (memory, chunks) =
            (std::mem::take(&mut index.memory), std::mem::take(&mut index.chunks));
        let manifest = Manifest { memory, chunks, ..manifest };
        note::read(&manifest.note)?; // or the file could not be read
        let mut text = serde_json::to_vec(&manifest)?;
        let (length, digest) = (text.len() as u64, Digest::of(&text));
        if length > MAX_MANIFEST {
            let why = format!("manifest: must have at most {MAX_MANIFEST} bytes, got {length}");
            return Err(io::Error::other(why));
        }
        text.extend_from_slice(&length.to_le_bytes());
        text.extend_from_slice(digest.as_bytes());
        text.extend_from_slice(&END);
        self.shared.file.write_all_at(&text, index.end)?;
        drop(index);
        Ok(manifest)
    }

    fn join(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                let why = io::Error::other("a thread that writes has panicked");
                self.shared.index.lock().failed.get_or_insert(why);
            }
        }
    }
}

impl Drop for ChunkWriter {
    /// The threads have the file, and with it the lock, until they end.
    fn drop(&mut self) {
        self.join();
    }
}

fn work(shared: &Shared, waiting: &Mutex<Receiver<Job>>, done: &Sender<Vec<u8>>) {
    loop {
        let Ok(job) = waiting.lock().recv() else { return };
        if let Err(why) = shared.write(&job) {
            shared.index.lock().failed.get_or_insert(why);
        }
        let _ = done.send(job.bytes); // at the end it is not wanted
    }
}

impl Shared {
    fn write(&self, job: &Job) -> io::Result<()> {
        if is_zeros(&job.bytes) {
            return Ok(());
        }
        let digest = Digest::of(&job.bytes);
        let place = self.index.lock().place(job, digest);
        place.map_or(Ok(()), |at| self.file.write_all_at(&job.bytes, at))
    }
}

impl Index {
    /// Notes a chunk. Returns its place in the file, unless it is there.
    fn place(&mut self, job: &Job, digest: Digest) -> Option<u64> {
        let next = self.chunks.len() as u32;
        let index = *self.known.entry(digest).or_insert(next);
        self.memory[job.region].chunks[job.at] = Some(index);
        if index != next {
            return None;
        }
        let bytes = job.bytes.len() as u32;
        self.chunks.push(Chunk { digest, bytes });
        let at = self.end;
        self.end += u64::from(bytes);
        Some(at)
    }
}

fn is_zeros(bytes: &[u8]) -> bool {
    const ZEROS: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROS.len()).all(|part| part == &ZEROS[..part.len()])
}
