//! Memory that the device reads and writes: our own mappings, each registered in one context at a
//! time.

use crate::driver::calls;
use reef_cuda_abi::codes::ALREADY_REGISTERED;
use reef_guest::page::{BYTES, Mapping};
use std::io;
use std::sync::atomic::AtomicU32;

/// `CU_MEMHOSTREGISTER_DEVICEMAP`, and not portable: it is this context's alone.
const MAPPED: u32 = 2;

/// Number of words in a page.
pub(super) const WORDS: usize = 1024;

/// Area of whole pages, which child processes don't get: a copy would miss the device's writes.
#[derive(Debug)]
pub(crate) struct Area {
    at: usize,
    bytes: usize,
}

impl Area {
    /// Maps the device's page again: the same memory at another address, so that it can be
    /// registered again.
    pub(super) fn map_again(page: &Mapping) -> io::Result<Self> {
        // SAFETY: a length of zero copies a shared mapping, which the page is, to where the system
        // has room.
        let at = unsafe { libc::mremap(page.address().cast(), 0, BYTES, libc::MREMAP_MAYMOVE) };
        Self::new(at, BYTES)
    }

    /// Maps words that are zero.
    pub(crate) fn words() -> io::Result<Self> {
        let (access, bytes) = (libc::PROT_READ | libc::PROT_WRITE, 4 * WORDS);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, where the system has room.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        Self::new(at, bytes)
    }

    fn new(at: *mut libc::c_void, bytes: usize) -> io::Result<Self> {
        // SAFETY: pages of ours, if they are there.
        if at == libc::MAP_FAILED || unsafe { libc::madvise(at, bytes, libc::MADV_DONTFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { at: at as usize, bytes })
    }

    /// Returns a word, which stays for the life of the process.
    pub(crate) fn word(&self, at: usize) -> &'static AtomicU32 {
        assert!(4 * at < self.bytes, "word {at} of {} bytes", self.bytes);
        // SAFETY: within the mapping, which is never taken away, and aligned.
        unsafe { &*((self.at + 4 * at) as *const AtomicU32) }
    }

    /// Registers it in the current context. Returns its address there, or the driver's code.
    pub(crate) fn register(&self) -> Result<u64, u32> {
        let (at, mut address) = (self.at as *mut libc::c_void, 0);
        // SAFETY: this memory is mapped for the life of the process.
        let code =
            unsafe { calls::host_register(at, self.bytes, MAPPED) }.unwrap_or(ALREADY_REGISTERED);
        match code {
            // A context that had this memory before has kept it.
            0 | ALREADY_REGISTERED if calls::device_pointer(&mut address, at, 0) == Some(0) => {
                Ok(address)
            }
            code => Err(code),
        }
    }
}
