//! The page in this process's memory.

use super::layout::{BYTES, Page};
use crate::mmap::{InFile, Mapped};
use std::io;
use std::os::fd::AsFd;

// SAFETY: a page is atomics alone.
unsafe impl InFile for Page {
    const BYTES: usize = BYTES;
}

/// A mapped page.
pub type Mapping = Mapped<Page>;

/// Maps a file of the page's size, which can't change. A child process doesn't get it: its device's
/// work isn't the child's.
pub(super) fn map(file: impl AsFd) -> io::Result<Mapping> {
    Mapping::new(file)?.not_for_children()
}
