//! Shared memory that clients register under a name, as the standard protocol has it.
//!
//! A client keeps the right to shrink its own shared memory, and touching what is gone would kill the
//! daemon with a bus error. So regions are never mapped here: they are read and written with `pread` and
//! `pwrite`, which give an error instead, and cost the same one copy.
//!
//! A region belongs to the client that registered it: no other sees it, or can name it in a request.

use crate::error::{Error, Result};
use crate::net::principal::Principal;
use crate::tensor::short;
use parking_lot::Mutex;
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use rustix::shm;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Longest name of a region and of a key.
const MAX_NAME_LEN: usize = 128;

/// A part of a client's shared memory.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    pub(crate) key: String,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    file: Arc<File>,
}

/// A part of a region that holds one tensor.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    file: Arc<File>,
    begin: u64,
    bytes: usize,
    name: String,
}

/// Regions by owner and name.
#[derive(Debug)]
pub(crate) struct Regions {
    max: usize,
    regions: Mutex<BTreeMap<(Principal, String), Region>>,
}

impl Regions {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, regions: Mutex::default() }
    }

    /// Registers `bytes` bytes from `offset` on of the shared memory that `key` names.
    ///
    /// # Errors
    ///
    /// `Exists`; `Invalid` if the key is no plain name or the bytes are not all there; `NotFound`;
    /// `Denied` if it belongs to another user; `Exhausted` if there are too many.
    pub(crate) fn register(
        &self,
        who: &Principal,
        name: &str,
        key: &str,
        offset: u64,
        bytes: u64,
    ) -> Result<()> {
        if name.is_empty() || name.len() > MAX_NAME_LEN {
            return Err(Error::Invalid(format!(
                "region {:?}: 1 to {MAX_NAME_LEN} bytes",
                short(name)
            )));
        }
        let file = Arc::new(open(key, who)?);
        let region = Region { key: key.into(), offset, bytes, file };
        region.check_size()?;
        let mut regions = self.regions.lock();
        if regions.contains_key(&(who.clone(), name.into())) {
            return Err(Error::Exists(format!("shared memory region {name:?} is registered")));
        }
        if regions.len() >= self.max {
            let text = format!("{} shared memory regions are registered already", self.max);
            return Err(Error::Exhausted(text));
        }
        regions.insert((who.clone(), name.into()), region);
        Ok(())
    }

    /// Forgets a region, or all of `who` if there is no name.
    pub(crate) fn unregister(&self, who: &Principal, name: &str) {
        let gone = |owner: &Principal, n: &str| owner == who && (name.is_empty() || n == name);
        self.regions.lock().retain(|(owner, n), _| !gone(owner, n));
    }

    /// The region called `name`, or all of `who` if there is no name.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub(crate) fn status(&self, who: &Principal, name: &str) -> Result<Vec<(String, Region)>> {
        let regions = self.regions.lock();
        let own =
            regions.iter().filter(|((owner, n), _)| owner == who && (name.is_empty() || n == name));
        let found: Vec<_> = own.map(|((_, n), region)| (n.clone(), region.clone())).collect();
        if found.is_empty() && !name.is_empty() {
            return Err(missing(name));
        }
        Ok(found)
    }

    /// The place of a tensor of `want` bytes in a region.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Invalid` if it doesn't lie inside or is not as long.
    pub(crate) fn slice(
        &self,
        who: &Principal,
        name: &str,
        offset: u64,
        bytes: u64,
        want: usize,
    ) -> Result<Slice> {
        let regions = self.regions.lock();
        let region = regions.get(&(who.clone(), name.into())).ok_or_else(|| missing(name))?;
        if bytes != want as u64 {
            let text = format!("region {name:?}: {bytes} bytes given, {want} wanted");
            return Err(Error::Invalid(text));
        }
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= region.bytes);
        if !inside {
            return Err(Error::Invalid(format!(
                "region {name:?}: {bytes} bytes at {offset} are outside its {} bytes",
                region.bytes
            )));
        }
        region.check_size()?;
        let begin = region.offset + offset;
        Ok(Slice { file: region.file.clone(), begin, bytes: want, name: name.into() })
    }
}

impl Region {
    /// The memory is as long as it was said to be.
    fn check_size(&self) -> Result<()> {
        let there = self.file.metadata().map_err(|e| Error::system("fstat", e))?.len();
        let end = self.offset.checked_add(self.bytes);
        if self.bytes == 0 || end.is_none_or(|end| end > there) {
            return Err(Error::Invalid(format!(
                "shared memory {:?} has {there} bytes, {} at {} are not inside",
                short(&self.key),
                self.bytes,
                self.offset
            )));
        }
        Ok(())
    }
}

impl Slice {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads from `offset` on.
    ///
    /// # Errors
    ///
    /// `Invalid` if the memory has shrunk since.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let done = self.file.read_exact_at(bytes, self.begin + offset as u64);
        done.map_err(|e| Error::Invalid(format!("region {:?}: {e}", self.name)))
    }

    /// Writes from `offset` on.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let done = self.file.write_all_at(bytes, self.begin + offset as u64);
        done.map_err(|e| Error::Invalid(format!("region {:?}: {e}", self.name)))
    }
}

fn missing(name: &str) -> Error {
    Error::NotFound(format!("no shared memory region {:?} is registered", short(name)))
}

/// Opens POSIX shared memory by its key, which has to be the client's own.
fn open(key: &str, who: &Principal) -> Result<File> {
    let plain = key.strip_prefix('/').unwrap_or(key);
    if plain.is_empty()
        || plain.len() > MAX_NAME_LEN
        || plain.contains(['/', '\0'])
        || plain == ".."
    {
        return Err(Error::Invalid(format!("shared memory key {:?}: no plain name", short(key))));
    }
    let fd = shm::open(plain, shm::OFlags::RDWR, Mode::empty()).map_err(|e| match e {
        Errno::NOENT => Error::NotFound(format!("no shared memory {key:?}")),
        Errno::ACCESS => Error::Denied(format!("shared memory {key:?}: permission denied")),
        e => Error::system("shm_open", e),
    })?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| Error::system("fstat", e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Error::Invalid(format!("shared memory {key:?}: no memory")));
    }
    let owner = match who {
        Principal::User(uid) => *uid,
        _ => rustix::process::getuid().as_raw(),
    };
    if stat.st_uid != owner {
        return Err(Error::Denied(format!("shared memory {key:?} belongs to another user")));
    }
    Ok(File::from(fd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::peer::Peer;

    struct Memory(String, File);

    impl Memory {
        fn new(test: &str, bytes: u64) -> Self {
            let key = format!("/reef-regions-{test}-{}", std::process::id());
            let flags = shm::OFlags::RDWR | shm::OFlags::CREATE;
            let file = File::from(shm::open(&key, flags, Mode::RUSR | Mode::WUSR).unwrap());
            file.set_len(bytes).unwrap();
            Self(key, file)
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            let _ = shm::unlink(&self.0);
        }
    }

    fn me() -> Principal {
        Principal::User(rustix::process::getuid().as_raw())
    }

    #[test]
    fn a_region_is_bounded_by_the_real_size() {
        let memory = Memory::new("size", 4096);
        let regions = Regions::new(8);
        let register =
            |name, offset, bytes| regions.register(&me(), name, &memory.0, offset, bytes);
        register("all", 0, 4096).unwrap();
        register("end", 4000, 96).unwrap();
        for (offset, bytes) in [(0, 4097), (4000, 97), (u64::MAX, 2), (1, u64::MAX), (0, 0)] {
            let said = register("bad", offset, bytes).unwrap_err();
            assert!(matches!(said, Error::Invalid(_)), "{offset} {bytes}: {said}");
        }
        assert!(matches!(register("all", 0, 1), Err(Error::Exists(_))));
        let slice = |offset, bytes| regions.slice(&me(), "end", offset, bytes, bytes as usize);
        assert!(slice(0, 96).is_ok() && slice(92, 4).is_ok());
        assert!(slice(1, 96).is_err() && slice(u64::MAX, 4).is_err());
        assert!(regions.slice(&me(), "end", 0, 4, 8).is_err(), "another length than the tensor's");
    }

    #[test]
    fn a_slice_lies_where_region_and_request_say() {
        let memory = Memory::new("place", 64);
        let regions = Regions::new(8);
        regions.register(&me(), "r", &memory.0, 16, 32).unwrap();
        let slice = regions.slice(&me(), "r", 8, 4, 4).unwrap();
        slice.write(1, &[7, 8]).unwrap();
        let mut all = [0; 64];
        memory.1.read_exact_at(&mut all, 0).unwrap();
        assert_eq!(
            (&all[16 + 8..][..4], all.iter().filter(|&&byte| byte != 0).count()),
            (&[0, 7, 8, 0][..], 2)
        );
        let mut bytes = [0; 2];
        slice.read(2, &mut bytes).unwrap();
        assert_eq!(bytes, [8, 0]);
    }

    #[test]
    fn memory_that_shrinks_is_an_error_and_no_signal() {
        let memory = Memory::new("shrinks", 4096);
        let regions = Regions::new(8);
        regions.register(&me(), "r", &memory.0, 0, 4096).unwrap();
        let slice = regions.slice(&me(), "r", 0, 4096, 4096).unwrap();
        slice.write(4092, &[1, 2, 3, 4]).unwrap();
        memory.1.set_len(100).unwrap();
        let mut bytes = [0; 4096];
        assert!(matches!(slice.read(0, &mut bytes), Err(Error::Invalid(_))));
        assert!(regions.slice(&me(), "r", 0, 4096, 4096).is_err());
    }

    #[test]
    fn regions_of_others_are_not_there() {
        let memory = Memory::new("others", 64);
        let regions = Regions::new(2);
        regions.register(&me(), "r", &memory.0, 0, 64).unwrap();
        let other = &Peer::UNKNOWN.principal;
        assert!(matches!(regions.slice(other, "r", 0, 4, 4), Err(Error::NotFound(_))));
        assert!(regions.status(other, "").unwrap().is_empty());
        regions.unregister(other, "");
        assert_eq!(regions.status(&me(), "r").unwrap().len(), 1);
        let stranger = Principal::User(rustix::process::getuid().as_raw() + 1);
        let said = regions.register(&stranger, "x", &memory.0, 0, 64);
        assert!(matches!(said, Err(Error::Denied(_))), "{said:?}");
        regions.register(other, "r", &memory.0, 0, 64).unwrap();
        let said = regions.register(&me(), "s", &memory.0, 0, 64);
        assert!(matches!(said, Err(Error::Exhausted(_))), "{said:?}");
        regions.unregister(&me(), "r");
        assert!(regions.status(&me(), "r").is_err());
    }

    #[test]
    fn keys_that_are_paths_are_refused() {
        let regions = Regions::new(2);
        for key in ["", "/", "..", "/../etc/passwd", "a/b", "//x", "a\0b"] {
            let said = regions.register(&me(), "r", key, 0, 1);
            assert!(matches!(said, Err(Error::Invalid(_))), "{key:?}: {said:?}");
        }
        let said = regions.register(&me(), "r", "/reef-there-is-none", 0, 1);
        assert!(matches!(said, Err(Error::NotFound(_))), "{said:?}");
    }
}
