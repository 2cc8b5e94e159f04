//! Mapped files: their memory as a struct of atomics, shared with other processes.

use reef_files::Mapping;
use rustix::io::pread;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};

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
pub struct Mapped<T: InFile>(Mapping, PhantomData<T>);

impl<T: InFile> Mapped<T> {
    /// Length of the file, in which `T` has room.
    const LEN: usize = {
        assert!(size_of::<T>() <= T::BYTES);
        T::BYTES
    };

    /// Creates a file of zeros whose length can't change, and maps it. The name is for tools that
    /// list memory.
    pub(crate) fn create(name: &str) -> io::Result<(Self, OwnedFd)> {
        let (mapping, file) = Mapping::create(name, Self::LEN)?;
        Ok((Self(mapping, PhantomData), file))
    }

    /// Maps a file that another process has created, if its length can't change.
    pub(crate) fn open(file: impl AsFd) -> io::Result<Self> {
        Ok(Self(Mapping::open(file, Self::LEN)?, PhantomData))
    }

    /// Maps a file that is and stays at least `T::BYTES` long.
    pub(crate) fn new(file: impl AsFd) -> io::Result<Self> {
        Ok(Self(Mapping::of_file(file, Self::LEN)?, PhantomData))
    }

    /// Keeps the mapping from child processes.
    pub(crate) fn not_for_children(self) -> io::Result<Self> {
        self.0.not_for_children()?;
        Ok(self)
    }

    /// Returns the address, for a driver that registers the memory.
    pub fn address(&self) -> *mut u8 {
        self.0.start().as_ptr()
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
        // SAFETY: mapped as long as `self` lives, at a page's start, and `LEN` is enough for it. By
        // `InFile` it is atomics alone, of which any bytes are a value.
        unsafe { self.0.start().cast::<T>().as_ref() }
    }
}
