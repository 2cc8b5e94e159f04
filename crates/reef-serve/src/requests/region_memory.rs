//! Memory of a region.

use crate::error::Result;
use crate::net::identity::principal::Principal;
use crate::requests::device_memory::{DeviceMemory, DeviceSlice};
use crate::requests::shared_memory::{FileId, Slice, check_size, open};
use std::fs::File;
use std::sync::{Arc, Weak};

/// Memory of a region.
#[derive(Debug, Clone)]
pub(crate) enum Memory {
    System(SystemMemory),
    Device(DeviceMemory),
}

/// Shared memory of the system.
#[derive(Debug, Clone)]
pub(crate) struct SystemMemory {
    pub(crate) key: String,
    /// Offset of the region in it.
    pub(crate) offset: u64,
    file: Arc<File>,
    id: FileId,
}

/// The protocol's kinds of shared memory: each has calls of its own, but names are common to both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    System,
    Cuda,
}

/// Memory of one tensor in a region.
#[derive(Debug, Clone)]
pub(crate) enum RegionSlice {
    System(Slice),
    Device(DeviceSlice),
}

impl SystemMemory {
    /// Opens `bytes` bytes at `offset` of the memory that `key` names.
    ///
    /// # Errors
    ///
    /// Errors of [`open`] and [`check_size`].
    pub(super) fn open(key: &str, principal: &Principal, offset: u64, bytes: u64) -> Result<Self> {
        let (file, id) = open(key, principal)?;
        check_size(&file, key, offset, bytes)?;
        Ok(Self { key: key.into(), offset, file: Arc::new(file), id })
    }

    /// Returns its file, which is open as long as the region is there or a request uses it.
    pub(super) fn file(&self) -> Weak<File> {
        Arc::downgrade(&self.file)
    }
}

impl Memory {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::System(_) => Kind::System,
            Self::Device(_) => Kind::Cuda,
        }
    }

    /// True if both are the same memory, under whichever name.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::System(one), Self::System(other)) => one.id == other.id,
            (Self::Device(one), Self::Device(other)) => one.is_same(other),
            (Self::System(_), Self::Device(_)) | (Self::Device(_), Self::System(_)) => false,
        }
    }

    /// Returns `want` bytes at `offset`, which lie inside the region `name` of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// `Invalid` if its owner has made it smaller.
    pub(super) fn part(
        &self,
        name: &str,
        bytes: u64,
        offset: u64,
        want: usize,
    ) -> Result<RegionSlice> {
        match self {
            Self::System(SystemMemory { key, offset: first, file, .. }) => {
                check_size(file, key, *first, bytes)?;
                let slice = Slice::new(file.clone(), first + offset, want, name.into());
                Ok(RegionSlice::System(slice))
            }
            Self::Device(memory) => {
                let (memory, region) = (memory.clone(), name.into());
                let begin = usize::try_from(offset).unwrap_or(usize::MAX);
                Ok(RegionSlice::Device(DeviceSlice { memory, begin, bytes: want, region }))
            }
        }
    }
}
