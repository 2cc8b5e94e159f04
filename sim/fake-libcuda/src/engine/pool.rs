//! A pool: memory that is taken in chunks, and kept for later allocations.
//!
//! An allocation lies in one piece of free memory, or the pool grows. What a stream frees is there
//! for its own next allocation at once, and for other streams when it has reached that point.
//! Pools get addresses of chunks that the device has back, whichever pool had them.

use super::device_memory::{give_back, take};
use super::settings::setting;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// The pool of the first device itself; the next devices' follow.
const POOL: usize = 0x9001;

/// A device's own pool.
pub(crate) fn own_pool(device: usize) -> usize {
    POOL + device
}

/// The driver takes memory for pools in multiples of this.
const CHUNK: usize = 32 << 20;
/// Chunks begin at multiples of this.
const ALIGNMENT: usize = 2 << 20;
/// Bytes of an allocation are a multiple of this.
const UNIT: usize = 512;

/// Addresses of chunks that the device has back, without access. The last one is the first that a
/// pool gets again, whichever pool had it.
static SPARE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// False: pools use none of their free memory again (`REEF_FAKE_REUSE=0`).
static REUSES: LazyLock<bool> = LazyLock::new(|| setting("REEF_FAKE_REUSE", 1) != 0);

fn spare() -> MutexGuard<'static, Vec<usize>> {
    SPARE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Memory that a stream has freed, and that is not for other streams yet.
#[derive(Clone, Copy, Debug)]
struct Freed {
    number: u64,
    stream: u64,
    from: usize,
    to: usize,
    /// The stream has reached the end.
    is_over: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// Addresses of chunks.
    chunks: BTreeSet<usize>,
    /// Beginnings and ends of what any stream may have.
    free: BTreeMap<usize, usize>,
    freed: Vec<Freed>,
    /// Bytes of allocations: those that a stream has yet to reach the end of don't count, as with
    /// the driver.
    pub(crate) used: u64,
    /// Bytes that it keeps when a call waits.
    pub(crate) threshold: u64,
    /// Memory that a stream has freed is for others only after a call has waited: the program
    /// doesn't allow that completed frees are used again as soon as they are known.
    pub(crate) keeps_apart: bool,
    /// Of the host's memory.
    pub(crate) is_host: bool,
    /// Of managed memory, which is the device's here.
    pub(crate) is_managed: bool,
    /// Its handle is gone: it ends with its last allocation.
    pub(crate) is_destroyed: bool,
    /// The pool that it imports, whose memory it has.
    pub(crate) imported: Option<usize>,
    /// Allocations that were imported: their memory is there after they are freed.
    pub(crate) held: Vec<Range<usize>>,
}

/// Bytes that an allocation takes of its pool.
pub(super) fn granted(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(UNIT as u64).unwrap_or(u64::MAX)
}

impl Pool {
    /// Bytes that it has of the device.
    pub(crate) fn reserved(&self) -> u64 {
        (self.chunks.len() * CHUNK) as u64
    }

    /// Returns whether nothing uses it, now or in a stream.
    pub(super) fn is_unused(&self) -> bool {
        self.used == 0 && self.freed.iter().all(|freed| freed.is_over)
    }

    /// Allocates bytes in a stream.
    pub(super) fn allocate(&mut self, bytes: u64, stream: u64) -> Option<usize> {
        let bytes = granted(bytes);
        let size = bytes as usize;
        if !self.keeps_apart {
            self.absorb();
        }
        let found = REUSES.then(|| self.of_stream(size, stream).or_else(|| self.of_free(size)));
        let at = found.flatten().or_else(|| self.grow(size))?;
        self.used += bytes;
        Some(at)
    }

    fn of_stream(&mut self, size: usize, stream: u64) -> Option<usize> {
        let fits = |freed: &&mut Freed| freed.stream == stream && freed.to - freed.from >= size;
        let found = self.freed.iter_mut().find(fits)?;
        let at = found.from;
        found.from += size;
        self.freed.retain(|freed| freed.from < freed.to);
        Some(at)
    }

    fn of_free(&mut self, size: usize) -> Option<usize> {
        let fits = |(from, to): &(&usize, &usize)| **to - **from >= size;
        let (&from, &to) = self.free.iter().filter(fits).min_by_key(|(from, to)| **to - **from)?;
        self.free.remove(&from);
        if from + size < to {
            self.free.insert(from + size, to);
        }
        Some(from)
    }

    fn grow(&mut self, size: usize) -> Option<usize> {
        let bytes = size.checked_next_multiple_of(CHUNK)?;
        if !self.is_host && !take(bytes as u64) {
            return None;
        }
        let at = self.map_again(bytes).or_else(|| map(bytes))?;
        self.chunks.extend((at..at + bytes).step_by(CHUNK));
        if size < bytes {
            self.free.insert(at + size, at + bytes);
        }
        Some(at)
    }

    /// Maps a chunk at the address of a former one, with no chunk of this pool next to it.
    fn map_again(&self, bytes: usize) -> Option<usize> {
        let mut spare = spare();
        let is_apart = |at: &usize| {
            !self.chunks.contains(&(at + CHUNK)) && !self.chunks.contains(&(at - CHUNK))
        };
        let place = spare.iter().rposition(|at| bytes == CHUNK && is_apart(at))?;
        let at = spare.remove(place);
        map_chunk(at, libc::PROT_READ | libc::PROT_WRITE).then_some(at)
    }

    /// Ends an allocation.
    pub(super) fn leave(&mut self, at: usize, bytes: u64) {
        self.used -= bytes;
        self.merge(at, at + bytes as usize);
    }

    /// Ends an allocation when a stream has reached this point.
    pub(super) fn leave_in(&mut self, stream: u64, number: u64, at: usize, bytes: u64) {
        self.used -= bytes;
        let to = at + bytes as usize;
        self.freed.push(Freed { number, stream, from: at, to, is_over: false });
    }

    /// A stream has reached the end of an allocation: what it has not used again is free.
    pub(super) fn reached(&mut self, number: u64) {
        let its = self.freed.iter_mut().filter(|freed| freed.number == number);
        its.for_each(|freed| freed.is_over = true);
        if !self.keeps_apart {
            self.absorb();
        }
    }

    /// Gives all streams the memory that streams have freed, and reached the end of.
    pub(super) fn absorb(&mut self) {
        let over: Vec<_> = self.freed.extract_if(.., |freed| freed.is_over).collect();
        over.into_iter().for_each(|freed| self.merge(freed.from, freed.to));
    }

    fn merge(&mut self, mut from: usize, mut to: usize) {
        if let Some((&before, _)) =
            self.free.range(..from).next_back().filter(|(_, to)| **to == from)
        {
            self.free.remove(&before);
            from = before;
        }
        if let Some(after) = self.free.remove(&to) {
            to = after;
        }
        self.free.insert(from, to);
    }

    /// Gives back chunks of which nothing is used, but for `keep` bytes.
    pub(super) fn shrink(&mut self, keep: u64) {
        for chunk in self.chunks.clone() {
            if self.reserved() < keep.saturating_add(CHUNK as u64) {
                return;
            }
            let before = self.free.range(..=chunk).next_back().map(|(from, to)| (*from, *to));
            let Some((from, to)) = before.filter(|(_, to)| *to >= chunk + CHUNK) else { continue };
            self.free.remove(&from);
            [(from, chunk), (chunk + CHUNK, to)].into_iter().for_each(|(from, to)| {
                if from < to {
                    self.free.insert(from, to);
                }
            });
            self.chunks.remove(&chunk);
            let is_kept = map_chunk(chunk, libc::PROT_NONE);
            let is_held = self.held.iter().any(|of| of.start < chunk + CHUNK && chunk < of.end);
            if is_kept && !is_held {
                spare().push(chunk);
            }
            if !self.is_host && !is_held {
                give_back(CHUNK as u64);
            }
        }
    }
}

/// Maps a chunk anew, with this access. Its address stays the pools'.
fn map_chunk(at: usize, access: i32) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: a mapping of ours, of which nothing is allocated.
    let got = unsafe { libc::mmap(at as *mut _, CHUNK, access, flags, -1, 0) };
    got != libc::MAP_FAILED
}

/// Memory that takes none of the host's before it is written, with nothing of a pool next to it.
fn map(bytes: usize) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let more = bytes.checked_add(ALIGNMENT)?;
    // SAFETY: new memory.
    let got = unsafe { libc::mmap(std::ptr::null_mut(), more, access, flags, -1, 0) };
    (got != libc::MAP_FAILED).then(|| (got as usize + 1).next_multiple_of(ALIGNMENT))
}
