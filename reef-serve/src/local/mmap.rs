//! Memory that two processes share.
//!
//! The other process may write any of it at any time, so nothing but atomics is ever read from it,
//! and it hands out references only to types that are made of them ([`Shared`]). Devices copy
//! tensors from and to it as raw bytes.

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

/// Types made of atomics and nothing else.
///
/// # Safety
///
/// Every bit pattern is a value, and all access through a shared reference is atomic.
pub(super) unsafe trait Shared {}

// SAFETY: both are atomics.
unsafe impl Shared for AtomicU32 {}
// SAFETY: as above.
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

// SAFETY: all access is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// What keeps the size as it is.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

impl Mapping {
    /// Makes `bytes` bytes of zeroed memory, seals their number and maps them.
    ///
    /// # Errors
    ///
    /// `Exhausted` or `Failed`, with the system's words.
    pub(super) fn create(bytes: usize) -> Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("reef-local", flags)
            .map_err(|e| Error::system("memfd_create", e))?;
        rustix::fs::ftruncate(&fd, bytes as u64).map_err(|e| Error::system("ftruncate", e))?;
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(|e| Error::system("F_ADD_SEALS", e))?;
        Ok((Self::open(&fd, bytes)?, fd))
    }

    /// Maps memory of at least `bytes` bytes that is sealed.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is shorter or not sealed; `Failed`.
    pub(super) fn open(fd: impl AsFd, bytes: usize) -> Result<Self> {
        let seals =
            rustix::fs::fcntl_get_seals(&fd).map_err(|e| Error::system("F_GET_SEALS", e))?;
        let there = rustix::fs::fstat(&fd).map_err(|e| Error::system("fstat", e))?.st_size;
        if !seals.contains(SEALS) || (there as u64) < bytes as u64 || bytes == 0 {
            let text = format!("shared memory: {there} bytes, {bytes} wanted, seals {seals:?}");
            return Err(Error::Invalid(text));
        }
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice changes no memory that is in
        // use.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, flags, fd, 0) };
        let start = start.map_err(|e| Error::system("mmap", e))?;
        let start = NonNull::new(start.cast()).expect("mmap gives an address or an error");
        Ok(Self { start, bytes })
    }

    /// `count` values of a type from byte `offset` on.
    ///
    /// # Panics
    ///
    /// If they don't lie inside or not at their alignment: offsets are ours, never the other
    /// side's.
    pub(super) fn slice<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        let end = size_of::<T>().checked_mul(count).and_then(|size| size.checked_add(offset));
        let end = end.expect("offsets of a layout don't overflow");
        assert!(end <= self.bytes, "{end} is outside of {} bytes", self.bytes);
        assert!(offset.is_multiple_of(align_of::<T>()), "{offset} is not aligned");
        // SAFETY: the range lies in the mapping, which lives as long as `self` and can't shrink; it
        // is aligned, as mappings begin at a page; by `Shared` any bytes are values, and the other
        // process's writes meet atomic reads.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset).cast(), count) }
    }

    /// One value of a type at byte `offset`.
    ///
    /// # Panics
    ///
    /// As [`slice`](Self::slice).
    pub(super) fn at<T: Shared>(&self, offset: usize) -> &T {
        &self.slice(offset, 1)[0]
    }
}

impl Mapping {
    /// All of it, for devices.
    pub(super) fn host_memory(self: &Arc<Self>) -> HostMemory {
        // SAFETY: the mapping is there for as long as its owner, can't shrink, and references into
        // it are to atomics only.
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
    fn two_mappings_share_memory_whose_size_is_sealed() {
        let (first, fd) = Mapping::create(8192).unwrap();
        let second = Mapping::open(&fd, 8192).unwrap();
        first.at::<AtomicU64>(4096).store(7, Ordering::Relaxed);
        assert_eq!(second.slice::<AtomicU64>(4096, 512)[0].load(Ordering::Relaxed), 7);
        let file = File::from(fd);
        assert!(file.set_len(100).is_err() && file.set_len(100_000).is_err());
        assert!(Mapping::open(&file, 8193).is_err());
    }

    #[test]
    fn memory_that_is_not_sealed_is_refused() {
        let fd = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, 4096).unwrap();
        assert!(matches!(Mapping::open(&fd, 4096), Err(Error::Invalid(_))));
    }

    #[test]
    #[should_panic(expected = "8200 is outside of 8192 bytes")]
    fn what_is_outside_is_never_reached() {
        Mapping::create(8192).unwrap().0.at::<AtomicU64>(8192);
    }
}
