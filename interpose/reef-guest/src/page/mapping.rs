//! Mapping of a page in this process.

use super::layout::{BYTES, Page};
use crate::mmap::{InFile, Mapped};
use std::io;
use std::os::fd::AsFd;

// SAFETY: a page consists of atomics alone.
unsafe impl InFile for Page {
    const BYTES: usize = BYTES;
}

/// Mapped page.
pub type Mapping = Mapped<Page>;

/// Maps a file of the page's size, which can't change. Child processes don't get the mapping: the
/// device's work isn't theirs.
pub(super) fn map(file: impl AsFd) -> io::Result<Mapping> {
    Mapping::new(file)?.not_for_children()
}
