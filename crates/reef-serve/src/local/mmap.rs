//! Memory that a client and the daemon share.
//!
//! The other process may write any of it at any time ([`Shared`]). Devices copy tensors from and to
//! it as raw bytes.

#![allow(unsafe_code)] // saying what lies in the memory

use super::channel::Channel;
use super::slot::Slot;
use crate::error::{Error, Result};
use reef::HostMemory;
use reef_files::{Mapping, Shared};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

// SAFETY: it is two words, which are transparent atomics.
unsafe impl Shared for Channel {}
// SAFETY: see its fields, all of which are atomics or arrays of them.
unsafe impl Shared for Slot {}

/// Creates memory of this size.
///
/// # Errors
///
/// `Failed`, with the system's message.
pub(super) fn create(bytes: usize) -> Result<(Mapping, OwnedFd)> {
    Mapping::create("reef-local", bytes).map_err(refused)
}

/// Maps the memory that a daemon has created.
///
/// # Errors
///
/// `Invalid` if it has another size or is not sealed; `Failed`.
pub(super) fn open(fd: impl AsFd, bytes: usize) -> Result<Mapping> {
    Mapping::open(fd, bytes).map_err(refused)
}

fn refused(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData => Error::Invalid(error.to_string()),
        _ => Error::system("shared memory", error),
    }
}

/// Returns the whole mapping, for devices.
pub(super) fn host_memory(mapping: &Arc<Mapping>) -> HostMemory {
    // SAFETY: the mapping lives as long as its owner, cannot shrink, and references into it are to
    // atomics only.
    unsafe { HostMemory::new(mapping.start(), mapping.bytes(), mapping.clone()) }
}
