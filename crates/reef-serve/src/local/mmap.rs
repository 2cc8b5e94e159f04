//! Memory that two processes share.
//!
//! The other process may write any of it at any time. So it is read only through atomics, and
//! references are given out only to types made of atomics ([`Shared`]). Devices copy tensors from
//! and to it as raw bytes.

#![allow(unsafe_code)] // mapping memory, and saying what lies in it

use super::channel::Channel;
use super::slot::Slot;
use crate::error::{Error, Result};
use reef::HostMemory;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Types that consist of atomics only.
///
/// # Safety
///
/// Every bit pattern is a value, and all access through a shared reference is atomic.
pub(super) unsafe trait Shared {}

// SAFETY: both are atomics.
unsafe impl Shared for AtomicU32 {}
// SAFETY: an atomic.
unsafe impl Shared for AtomicU64 {}
// SAFETY: it is two words, which are transparent atomics.
unsafe impl Shared for Channel {}
// SAFETY: see its fields, all of which are atomics or arrays of them.
unsafe impl Shared for Slot {}

/// Mapped shared memory of a size that no process can change.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: all access is atomic, and the mapping belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: all access is atomic.
unsafe impl Sync for Mapping {}

/// Seals that fix the size.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

impl Mapping {
    /// Creates `bytes` bytes of zeroed memory, seals their number and maps them.
    ///
    /// # Errors
    ///
    /// `Exhausted` or `Failed`, with the system's message.
    pub(super) fn create(bytes: usize) -> Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("reef-local", flags)
            .map_err(|e| Error::system("memfd_create", e))?;
        rustix::fs::ftruncate(&fd, bytes as u64).map_err(|e| Error::system("ftruncate", e))?;
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(|e| Error::system("F_ADD_SEALS", e))?;
        Ok((Self::open(&fd, bytes)?, fd))
    }

    /// Maps sealed memory of at least `bytes` bytes.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is shorter or not sealed; `Failed`.
    pub(super) fn open(fd: impl AsFd, bytes: usize) -> Result<Self> {
        let seals =
            rustix::fs::fcntl_get_seals(&fd).map_err(|e| Error::system("F_GET_SEALS", e))?;
        let there = rustix::fs::fstat(&fd).map_err(|e| Error::system("fstat", e))?.st_size;
        if !seals.contains(SEALS) || (there as u64) < bytes as u64 || bytes == 0 {
            let text = format!(
                "shared memory: must have {bytes} sealed bytes, got {there} with seals {seals:?}"
            );
            return Err(Error::Invalid(text));
        }
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice changes no memory in use.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, flags, fd, 0) };
        let start = start.map_err(|e| Error::system("mmap", e))?;
        let start = NonNull::new(start.cast()).expect("mmap gives an address or an error");
        Ok(Self { start, bytes })
    }

    /// Returns `count` values of a type at byte `offset`.
    ///
    /// # Panics
    ///
    /// If they lie outside or are not aligned: offsets come from this side, never from the other
    /// one.
    pub(super) fn slice<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        let end = size_of::<T>().checked_mul(count).and_then(|size| size.checked_add(offset));
        let end = end.expect("offsets of a layout do not overflow");
        assert!(end <= self.bytes, "{end} must be at most {} bytes", self.bytes);
        assert!(offset.is_multiple_of(align_of::<T>()), "{offset} must be aligned");
        // SAFETY: the range lies in the mapping, which lives as long as `self` and cannot shrink;
        // it is aligned, because mappings begin at a page; by `Shared` any bytes are values, and
        // the other process's writes meet atomic reads.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset).cast(), count) }
    }

    /// Returns the value of a type at byte `offset`.
    ///
    /// # Panics
    ///
    /// If [`slice`](Self::slice) panics.
    pub(super) fn at<T: Shared>(&self, offset: usize) -> &T {
        &self.slice(offset, 1)[0]
    }
}

impl Mapping {
    /// Returns the whole mapping, for devices.
    pub(super) fn host_memory(self: &Arc<Self>) -> HostMemory {
        // SAFETY: the mapping lives as long as its owner, cannot shrink, and references into it are
        // to atomics only.
        unsafe { HostMemory::new(self.start, self.bytes, self.clone()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and references into it borrow `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::sync::atomic::Ordering;

    #[test]
    fn mappings_share_memory_of_sealed_size() {
        let (first, fd) = Mapping::create(8192).unwrap();
        let second = Mapping::open(&fd, 8192).unwrap();
        first.at::<AtomicU64>(4096).store(7, Ordering::Relaxed);
        assert_eq!(second.slice::<AtomicU64>(4096, 512)[0].load(Ordering::Relaxed), 7);
        let file = File::from(fd);
        assert!(file.set_len(100).is_err() && file.set_len(100_000).is_err());
        assert!(Mapping::open(&file, 8193).is_err());
    }

    #[test]
    fn unsealed_memory_is_refused() {
        let fd = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, 4096).unwrap();
        assert!(matches!(Mapping::open(&fd, 4096), Err(Error::Invalid(_))));
    }

    #[test]
    #[should_panic(expected = "8200 must be at most 8192 bytes")]
    fn access_outside_the_mapping_panics() {
        Mapping::create(8192).unwrap().0.at::<AtomicU64>(8192);
    }
}
