//! The page's memory, as a file that can be sent to others and can't shrink.

use super::layout::{BYTES, Identity};
use super::mapping::{Mapping, map};
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// No process can make the memory go away under another that has it mapped.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Names a page's memory among all that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64, u64);

/// A page that can be given away.
#[derive(Debug)]
pub struct PageFile(OwnedFd);

impl PageFile {
    /// Makes a page of this identity, and maps it.
    ///
    /// # Errors
    ///
    /// The system gives no memory.
    pub fn create(who: &Identity) -> io::Result<(Self, Mapping)> {
        let file = memfd_create("reef-guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, BYTES as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        let page = map(&file)?;
        page.header.write(who);
        Ok((Self(file), page))
    }

    /// Maps a page that another process made, and says whose it is, or was.
    ///
    /// # Errors
    ///
    /// `InvalidData`: its size may change, or it isn't a page of this version.
    pub fn open(file: OwnedFd) -> io::Result<(Identity, Self, Mapping)> {
        let page = Self::checked(&file)?;
        let who = page.header.read().map_err(|why| invalid(&format!("not a page: {why}")))?;
        Ok((who, Self(file), page))
    }

    /// Whether both are the same memory.
    pub fn is_same(&self, other: &Self) -> bool {
        self.place().is_ok_and(|here| other.place().is_ok_and(|there| there == here))
    }

    /// Which memory it is, for as long as somebody has it.
    pub(crate) fn place(&self) -> io::Result<Place> {
        let stat = fstat(&self.0)?;
        Ok(Place(stat.st_dev, stat.st_ino))
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
    fn both_sides_see_the_same_words() {
        let (file, page) = PageFile::create(&WHO).unwrap();
        let again = file.as_fd().try_clone_to_owned().unwrap();
        let (who, again, other) = PageFile::open(again).unwrap();
        assert_eq!(who, WHO);
        let stranger = PageFile::create(&WHO).unwrap().0;
        assert!(again.is_same(&file) && !again.is_same(&stranger));
        other.holders.hold(4);
        assert!(page.holders.has(4) && page.holders.is_closed());
    }

    #[test]
    fn a_page_that_could_shrink_is_refused() {
        let file = memfd_create("page", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, BYTES as u64).unwrap();
        let error = PageFile::open(file).unwrap_err().to_string();
        assert!(error.starts_with("a page whose size may change"), "{error}");
    }

    #[test]
    fn nobody_can_shrink_a_page() {
        let (file, _page) = PageFile::create(&WHO).unwrap();
        assert!(ftruncate(&file.0, 0).is_err());
    }
}
