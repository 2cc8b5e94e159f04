//! Memory that two processes have mapped, whose size neither can change.

use super::ring::Shared;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The memory.
#[derive(Debug)]
pub(super) struct Mapping(NonNull<Shared>);

// SAFETY: a reference to it is to atomics and cells that only `Ring` touches, as its halves may.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives access to atomics, and to cells that only `Ring` touches. Its
// halves keep bytes that are written apart from those that are read.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Makes such memory, all zeros.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(super) fn create() -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("reef-wire", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, size_of::<Shared>() as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((Self::open(&file)?, file))
    }

    /// Maps what the peer has made.
    ///
    /// # Errors
    ///
    /// `InvalidData` for a file of another size, or one that can shrink; the system's.
    pub(super) fn open(file: impl AsFd) -> io::Result<Self> {
        let len = fstat(&file)?.st_size;
        let seals = fcntl_get_seals(&file)?;
        if len != size_of::<Shared>() as i64 || !seals.contains(SEALS) {
            let text = format!("shared memory: {len} bytes with seals {seals:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice changes no memory in use.
        let at = unsafe {
            mmap(std::ptr::null_mut(), size_of::<Shared>(), access, MapFlags::SHARED, file, 0)
        }?;
        Ok(Self(NonNull::new(at.cast()).expect("mmap gives an address or an error")))
    }

    pub(super) fn get(&self) -> &Shared {
        // SAFETY: the mapping has this size, begins at a page and can't shrink; any bits are a
        // value of the type, all of which the peer may change: atomics and cells.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and references into it borrow `self`.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), size_of::<Shared>()) };
    }
}
