//! File of a page's memory, which can be sent to other processes and can't shrink.

use super::layout::Identity;
use super::mapping::{Mapping, create, open};
use rustix::fs::fstat;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Identity of a page's memory: device and inode of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

/// File of a page, which can be sent to another process.
#[derive(Debug)]
pub struct PageFile(OwnedFd);

impl PageFile {
    /// Creates a page with this identity, and maps it.
    ///
    /// # Errors
    ///
    /// The system has no memory.
    pub fn create(who: &Identity) -> io::Result<(Self, Mapping)> {
        let (page, file) = create()?;
        page.header.write(who);
        Ok((Self(file), page))
    }

    /// Maps a page that another process created. Returns its identity too, which may be out of
    /// date.
    ///
    /// # Errors
    ///
    /// `InvalidData`: its size may change, or it isn't a page of this version.
    pub fn open(file: OwnedFd) -> io::Result<(Identity, Self, Mapping)> {
        let page = open(&file)?;
        let who = page.header.read().map_err(|why| {
            io::Error::new(io::ErrorKind::InvalidData, format!("not a page: {why}"))
        })?;
        Ok((who, Self(file), page))
    }

    /// Returns whether both files are the same memory.
    pub fn is_same(&self, other: &Self) -> bool {
        self.file_id().is_ok_and(|here| other.file_id().is_ok_and(|there| there == here))
    }

    /// Returns the identity of the memory, which is unique as long as a process has it.
    pub(crate) fn file_id(&self) -> io::Result<FileId> {
        let stat = fstat(&self.0)?;
        Ok(FileId(stat.st_dev, stat.st_ino))
    }
}

impl AsFd for PageFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{BYTES, Class};
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    const WHO: Identity = Identity { guest: 7, class: Class::BestEffort, holder: 0, pid: 99 };

    #[test]
    fn both_sides_of_a_page_see_the_same_words() {
        let (file, page) = PageFile::create(&WHO).unwrap();
        let again = file.as_fd().try_clone_to_owned().unwrap();
        let (who, again, other) = PageFile::open(again).unwrap();
        assert_eq!(who, WHO);
        let outsider = PageFile::create(&WHO).unwrap().0;
        assert!(again.is_same(&file) && !again.is_same(&outsider));
        other.holders.hold(4);
        assert!(page.holders.has(4) && page.holders.is_closed());
    }

    #[test]
    fn page_without_seals_is_refused() {
        let file = memfd_create("page", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, BYTES as u64).unwrap();
        let error = PageFile::open(file).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("must have 4096 sealed bytes"), "{error}");
    }

    #[test]
    fn sealed_page_cannot_be_shrunk() {
        let (file, _page) = PageFile::create(&WHO).unwrap();
        assert!(ftruncate(&file.0, 0).is_err());
    }
}
