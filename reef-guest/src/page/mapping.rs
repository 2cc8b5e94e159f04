//! The page in this process's memory.

use super::layout::{BYTES, Page};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// A mapped page. A child process doesn't get it: its device's work isn't the child's.
#[derive(Debug)]
pub struct Mapping(NonNull<Page>);

// SAFETY: a page is atomics alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file of the page's size, which can't change.
    pub(super) fn new(file: impl AsFd) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, where the system has room.
        let at = unsafe { mmap(std::ptr::null_mut(), BYTES, access, flags, file, 0) }?;
        let page = Self(NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?);
        // SAFETY: the range is the mapping's. That a child has no such memory harms none of ours.
        unsafe { madvise(at, BYTES, Advice::LinuxDontFork) }?;
        Ok(page)
    }

    /// Where it is, for a driver that registers it.
    pub fn address(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }
}

impl Deref for Mapping {
    type Target = Page;

    fn deref(&self) -> &Page {
        // SAFETY: mapped until `drop`, and as large as a page, which is atomics alone.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no reference outlives `self`.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), BYTES) }; // can't fail for a whole mapping
    }
}
