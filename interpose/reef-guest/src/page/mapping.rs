//! Mapping of a page in this process.

use super::layout::{BYTES, Page};
use crate::mmap::{InFile, Mapped};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

// SAFETY: a page consists of atomics alone.
unsafe impl InFile for Page {
    const BYTES: usize = BYTES;
}

/// Mapped page.
pub type Mapping = Mapped<Page>;

/// Creates a page's file, and maps it as [`open`] does.
pub(super) fn create() -> io::Result<(Mapping, OwnedFd)> {
    let (page, file) = Mapping::create("reef-guest")?;
    Ok((page.not_for_children()?, file))
}

/// Maps a file of the page's size, which can't change. Child processes don't get the mapping: the
/// device's work isn't theirs.
pub(super) fn open(file: impl AsFd) -> io::Result<Mapping> {
    Mapping::open(file)?.not_for_children()
}
