//! Parts of a file, in memory or not.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// Bytes in memory or in a file.
#[derive(Clone, Copy)]
pub(super) enum Storage<'a> {
    Memory(&'a [u8]),
    /// A file, and its length in bytes.
    File(&'a File, u64),
}

/// A part of a file.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    place: Storage<'a>,
    first: u64,
    pub(super) len: u64,
}

impl<'a> Part<'a> {
    pub(super) fn whole(place: Storage<'a>) -> Self {
        let len = match place {
            Storage::Memory(bytes) => bytes.len() as u64,
            Storage::File(_, len) => len,
        };
        Self { place, first: 0, len }
    }

    /// Bytes `begin` to `end` of it.
    pub(super) fn range(self, begin: u64, end: u64) -> Option<Self> {
        let inside = begin <= end && end <= self.len;
        inside.then(|| Self { first: self.first + begin, len: end - begin, ..self })
    }

    /// Fills `bytes` from byte `at` on.
    pub(super) fn copy(self, at: u64, bytes: &mut [u8]) -> Result<(), String> {
        let first = self.first + at;
        match self.place {
            Storage::Memory(all) => bytes.copy_from_slice(&all[first as usize..][..bytes.len()]),
            Storage::File(mut file, _) => {
                let sought = file.seek(SeekFrom::Start(first));
                sought.and_then(|_| file.read_exact(bytes)).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}
