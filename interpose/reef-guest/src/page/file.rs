//! File of a page's memory, which can be sent to other processes and can't shrink.

use super::layout::{BYTES, Identity};
use super::mapping::{Mapping, map};
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Seals by which no process can take the memory away from another one that has it mapped.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

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
        let file = memfd_create("reef-guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, BYTES as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        let page = map(&file)?;
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
        let page = Self::checked(&file)?;
        let who = page.header.read().map_err(|why| invalid(&format!("not a page: {why}")))?;
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

    fn checked(file: &OwnedFd) -> io::Result<Mapping> {
        let seals = fcntl_get_seals(file)?;
        if !seals.contains(SEALS) {
            return Err(invalid(&format!("a page whose size may change (seals {seals:?})")));
        }
        let length = fstat(file)?.st_size;
        if length != BYTES as i64 {
            return Err(invalid(&format!("a page of {length} bytes")));
        }
        map(file)
    }
}

impl AsFd for PageFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Class;

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
        let error = PageFile::open(file).unwrap_err().to_string();
        assert!(error.starts_with("a page whose size may change"), "{error}");
    }

    #[test]
    fn sealed_page_cannot_be_shrunk() {
        let (file, _page) = PageFile::create(&WHO).unwrap();
        assert!(ftruncate(&file.0, 0).is_err());
    }
}
