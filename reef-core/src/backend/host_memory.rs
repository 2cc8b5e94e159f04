//! Host memory that belongs to others, for devices to copy from and to.

use std::any::Any;
use std::fmt::{self, Debug};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// A part of the host's memory, with what keeps it there.
///
/// Others may change its bytes at any time, even another process: they are [words](crate::words),
/// and a copy that races gets torn bytes.
///
/// ```
/// use reef_core::{Device, HostMemory};
/// use reef_cpu::Cpu;
/// use std::ptr::NonNull;
/// use std::sync::{Arc, atomic::AtomicU32};
///
/// let words: Arc<Vec<AtomicU32>> = Arc::new((0..16).map(AtomicU32::new).collect());
/// let start: NonNull<u8> = NonNull::from(words.as_slice()).cast();
/// // SAFETY: `words` keeps 16 words from `start` on, which are atomics for all.
/// let memory = unsafe { HostMemory::new(start, 64, words) };
/// let buffer = Cpu::open(0, "units=1")?.adopt_host(memory)?;
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Clone)]
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    _keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: its words are read and written as atomics alone, from any thread, and `_keep` is `Send`.
#[allow(unsafe_code)]
unsafe impl Send for HostMemory {}
// SAFETY: a shared reference gives no plain access to its words either, and `_keep` is `Sync`.
#[allow(unsafe_code)]
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Takes the word of the caller, once, for all copies to come.
    ///
    /// # Safety
    ///
    /// * `bytes` bytes from `start` on can be read and written for as long as `keep` lives.
    /// * Until then, any thread of this process that touches them without waiting for the others
    ///   does so by atomics of 32 bits, as [`words`](crate::words) does; no Rust reference to plain
    ///   values in them lives.
    ///
    /// # Panics
    ///
    /// If `start` or `bytes` is not a multiple of 4.
    #[allow(unsafe_code)]
    pub unsafe fn new(start: NonNull<u8>, bytes: usize, keep: Arc<dyn Any + Send + Sync>) -> Self {
        assert!(start.cast::<AtomicU32>().is_aligned(), "host memory at {start:?}, not at a word");
        assert!(bytes.is_multiple_of(size_of::<u32>()), "host memory of {bytes} bytes, not words");
        Self { start, bytes, _keep: keep }
    }

    /// Its words.
    #[allow(unsafe_code)]
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: the caller of `new` guarantees that the bytes are there for as long as `_keep`
        // lives, which `self` holds, and that unordered accesses to them are atomics of 32 bits.
        // `new` has checked that start and size are whole words.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / size_of::<u32>()) }
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
