//! Host memory that belongs to others, for devices to copy from and to.

use std::any::Any;
use std::fmt::{self, Debug};
use std::ptr::NonNull;
use std::sync::Arc;

/// A part of the host's memory, with what keeps it there.
///
/// Others may change its bytes at any time, even another process. Devices copy them through raw
/// pointers and never make references of them.
#[derive(Clone)]
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    _keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: it is bytes that are only reached through raw pointers, by users who answer for races.
#[allow(unsafe_code)]
unsafe impl Send for HostMemory {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Takes the word of the caller, once, for all copies to come.
    ///
    /// # Safety
    ///
    /// * `bytes` bytes from `start` on can be read and written for as long as `keep` lives.
    /// * No Rust reference to plain values in them lives while a device copies; atomics may.
    #[allow(unsafe_code)]
    pub unsafe fn new(start: NonNull<u8>, bytes: usize, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Self { start, bytes, _keep: keep }
    }

    /// Its first byte.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.start
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMemory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
