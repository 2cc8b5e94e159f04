//! Mapped files: their memory as a struct of atomics, shared with other processes.

use rustix::io::pread;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// Contents of a file that processes map.
///
/// # Safety
///
/// The type consists of atomics alone: any bytes are a value of it, and any process may write them
/// at any time.
pub unsafe trait InFile {
    /// Length of the file.
    const BYTES: usize;
}

/// Mapping of a file.
#[derive(Debug)]
pub struct Mapped<T: InFile>(NonNull<T>);

// SAFETY: atomics alone, in memory that any thread may unmap.
unsafe impl<T: InFile> Send for Mapped<T> {}
// SAFETY: `InFile` demands that `T` consists of atomics alone, so any number of threads may use it
// through a shared reference.
unsafe impl<T: InFile> Sync for Mapped<T> {}

impl<T: InFile> Mapped<T> {
    /// Maps a file that is and stays at least `T::BYTES` long.
    pub(crate) fn new(file: impl AsFd) -> io::Result<Self> {
        const { assert!(size_of::<T>() <= T::BYTES) };
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, where the system has room.
        let at = unsafe { mmap(std::ptr::null_mut(), T::BYTES, access, flags, file, 0) }?;
        Ok(Self(NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?))
    }

    /// Keeps the mapping from child processes.
    pub(crate) fn not_for_children(self) -> io::Result<Self> {
        // SAFETY: the range is the mapping's. That a child has no such memory harms none of ours.
        unsafe { madvise(self.0.as_ptr().cast(), T::BYTES, Advice::LinuxDontFork) }?;
        Ok(self)
    }

    /// Returns the address, for a driver that registers the memory.
    pub fn address(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }
}

/// Copies a file's contents. Unlike a mapping, the copy can be read whatever others do to the file:
/// bytes beyond the file's end are zero. Words that change during the copy are old or new.
pub(crate) fn copy_of<T: InFile>(file: impl AsFd) -> io::Result<Box<T>> {
    let mut copy = Box::<T>::new_zeroed();
    let at = copy.as_mut_ptr().cast::<u8>();
    // SAFETY: memory of this length, which is ours alone and of which each byte is zero.
    let bytes = unsafe { std::slice::from_raw_parts_mut(at, size_of::<T>()) };
    let mut read = 0;
    while read < bytes.len() {
        match pread(&file, &mut bytes[read..], read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    // SAFETY: any bytes are a value of it, says `InFile`.
    Ok(unsafe { copy.assume_init() })
}

impl<T: InFile> Deref for Mapped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: mapped until `drop`, and long enough for it, which is atomics alone.
        unsafe { self.0.as_ref() }
    }
}

impl<T: InFile> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no reference outlives `self`.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), T::BYTES) }; // can't fail
    }
}
