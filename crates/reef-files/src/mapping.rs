//! Memory that several processes map.
//!
//! Another process may write any of it at any time. So it is read only through atomics, and
//! references are given out only to types made for that ([`Shared`]).

use crate::descriptors::above_standard;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Types that lie in shared memory.
///
/// # Safety
///
/// * Any bytes are a value of the type.
/// * It consists of atomics, and of cells that are accessed by raw pointers alone. So any number of
///   threads may have references to it, and any process may write any byte of it while they live.
/// * If there are cells, mappings with the type are private to the code that accesses them:
///   [`Mapping::slice`] gives all code that has a mapping atomics in the same bytes.
pub unsafe trait Shared {}

// SAFETY: an atomic, of which any bytes are a value.
unsafe impl Shared for AtomicU32 {}
// SAFETY: an atomic, of which any bytes are a value.
unsafe impl Shared for AtomicU64 {}

/// Mapped memory, which is unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread, and references into it are to `Shared` types.
unsafe impl Send for Mapping {}
// SAFETY: references into it are to `Shared` types, which any number of threads may use.
unsafe impl Sync for Mapping {}

/// Seals that fix the size.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

impl Mapping {
    /// Creates `bytes` bytes of zeroed memory, seals their number and maps them. The name is for
    /// tools that list memory.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub fn create(name: &str, bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let file = above_standard(file)?;
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((Self::of_file(&file, bytes)?, file))
    }

    /// Maps memory of another process that has exactly `bytes` bytes and is sealed. No access to it
    /// can fail.
    ///
    /// # Errors
    ///
    /// `InvalidData` if it has another size or is not sealed; an error of the system.
    pub fn open(file: impl AsFd, bytes: usize) -> io::Result<Self> {
        let seals = fcntl_get_seals(&file)?;
        let there = fstat(&file)?.st_size;
        if !seals.contains(SEALS) || there as u64 != bytes as u64 {
            let text = format!(
                "shared memory: must have {bytes} sealed bytes, got {there} with seals {seals:?}"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Self::of_file(file, bytes)
    }

    /// Maps the first `bytes` bytes of a file. Without seals the caller has to know that the file
    /// stays that long: an access beyond its end ends the process by `SIGBUS`.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub fn of_file(file: impl AsFd, bytes: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice changes no memory in use.
        let start = unsafe { mmap(null_mut(), bytes, access, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// Keeps the mapping from child processes.
    ///
    /// # Errors
    ///
    /// Returns an error of the system.
    pub fn not_for_children(&self) -> io::Result<()> {
        let start = self.start.as_ptr().cast();
        // SAFETY: the range is the mapping's, and that a child has no such memory harms none of
        // ours.
        unsafe { madvise(start, self.bytes, Advice::LinuxDontFork) }?;
        Ok(())
    }

    /// Address of the mapping, at the start of a page.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Number of mapped bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns `count` values of a type at byte `offset`.
    ///
    /// # Panics
    ///
    /// If they lie outside or are not aligned: offsets come from this side, never from the other
    /// one.
    pub fn slice<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        let end = size_of::<T>().checked_mul(count).and_then(|size| size.checked_add(offset));
        let end = end.expect("offsets of a layout do not overflow");
        assert!(end <= self.bytes, "{end} must be at most {} bytes", self.bytes);
        assert!(offset.is_multiple_of(align_of::<T>()), "{offset} must be aligned");
        // SAFETY: the range lies in the mapping, which lives as long as `self`; it is aligned,
        // because mappings begin at a page; by `Shared` any bytes are values, and others may write
        // them while the references live.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset).cast(), count) }
    }

    /// Returns the value of a type at byte `offset`.
    ///
    /// # Panics
    ///
    /// If [`slice`](Self::slice) panics.
    pub fn at<T: Shared>(&self, offset: usize) -> &T {
        &self.slice(offset, 1)[0]
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and references into it borrow `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) }; // can't fail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::sync::atomic::Ordering;

    #[test]
    fn mappings_share_memory_of_sealed_size() {
        let (first, fd) = Mapping::create("test", 8192).unwrap();
        let second = Mapping::open(&fd, 8192).unwrap();
        first.at::<AtomicU64>(4096).store(7, Ordering::Relaxed);
        assert_eq!(second.slice::<AtomicU64>(4096, 512)[0].load(Ordering::Relaxed), 7);
        let file = File::from(fd);
        assert!(file.set_len(100).is_err() && file.set_len(100_000).is_err());
        for bytes in [8191, 8193] {
            let refused = Mapping::open(&file, bytes).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{bytes}");
        }
    }

    #[test]
    fn unsealed_memory_is_refused() {
        let fd = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, 4096).unwrap();
        let refused = Mapping::open(&fd, 4096).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    #[should_panic(expected = "8200 must be at most 8192 bytes")]
    fn access_outside_the_mapping_panics() {
        Mapping::create("test", 8192).unwrap().0.at::<AtomicU64>(8192);
    }
}
