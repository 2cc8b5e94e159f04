//! Memory as lanes see it: host memory, the workgroup's shared memory, private memory.
//!
//! Every access is checked. Host memory is read and written as atomics where it is aligned, so no
//! value of up to 8 bytes is torn, and a release store of one wave is seen by an acquire load of
//! another.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::registers::{PRIVATE_APERTURE, SHARED_APERTURE};
use super::wave::{Memory, Wave};

/// Why an access was refused.
#[derive(Debug)]
pub(super) enum Bad {
    Unmapped { address: u64, bytes: usize },
    Shared { offset: u64, bytes: usize, size: usize },
    Private { offset: u64, bytes: usize, size: usize },
    Misaligned { address: u64, bytes: usize },
    Unsupported(&'static str),
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unmapped { address, bytes } => {
                write!(f, "{address:#x}: {bytes} bytes are not mapped")
            }
            Self::Shared { offset, bytes, size } => {
                write!(f, "{bytes} bytes at {offset:#x} of {size:#x} bytes of shared memory")
            }
            Self::Private { offset, bytes, size } => {
                write!(f, "{bytes} bytes at {offset:#x} of {size:#x} bytes of private memory")
            }
            Self::Misaligned { address, bytes } => {
                write!(f, "{address:#x}: not aligned to {bytes} bytes")
            }
            Self::Unsupported(what) => write!(f, "{what} is not simulated"),
        }
    }
}

/// Surroundings of a wave while it runs.
#[derive(Debug)]
pub(super) struct Env<'a> {
    pub(super) lds: &'a mut [u8],
    pub(super) memory: &'a dyn Memory,
    /// The last mapped ranges that were asked for.
    known: [Range<u64>; 4],
    next: usize,
}

impl<'a> Env<'a> {
    pub(super) fn new(lds: &'a mut [u8], memory: &'a dyn Memory) -> Self {
        Self { lds, memory, known: [const { 0..0 }; 4], next: 0 }
    }

    /// Returns whether all of `first..last + bytes` is in one range that is known to be mapped, or
    /// becomes known.
    pub(super) fn covers(&mut self, first: u64, last: u64, bytes: usize) -> bool {
        let Some(end) = last.checked_add(bytes as u64) else { return false };
        if self.known.iter().any(|known| known.start <= first && end <= known.end) {
            return true;
        }
        match self.memory.mapped_around(first, bytes) {
            Some(range) => {
                let covers = range.start <= first && end <= range.end;
                self.known[self.next % 4] = range;
                self.next += 1;
                covers
            }
            None => false,
        }
    }

    /// A pointer to `bytes` mapped bytes of host memory.
    pub(super) fn host(&mut self, address: u64, bytes: usize) -> Result<*mut u8, Bad> {
        if self.covers(address, address, bytes) {
            Ok(address as *mut u8)
        } else {
            Err(Bad::Unmapped { address, bytes })
        }
    }

    /// A pointer to `bytes` bytes of shared memory.
    pub(super) fn shared(&mut self, offset: u64, bytes: usize) -> Result<*mut u8, Bad> {
        let size = self.lds.len();
        match usize::try_from(offset)
            .ok()
            .and_then(|at| self.lds.get_mut(at..at.checked_add(bytes)?))
        {
            Some(part) => Ok(part.as_mut_ptr()),
            None => Err(Bad::Shared { offset, bytes, size }),
        }
    }
}

impl Wave {
    /// A pointer to `bytes` bytes of a lane's private memory.
    pub(super) fn private(
        &mut self,
        lane: usize,
        offset: u64,
        bytes: usize,
    ) -> Result<*mut u8, Bad> {
        let size = self.private.len() / 64;
        let inside = usize::try_from(offset).ok().and_then(|at| Some(at..at.checked_add(bytes)?));
        match inside.filter(|part| part.end <= size) {
            Some(part) => {
                let start = lane * size + part.start;
                Ok(self.private[start..start + bytes].as_mut_ptr())
            }
            None => Err(Bad::Private { offset, bytes, size }),
        }
    }

    /// A pointer for a flat address, which may be in any of the three.
    pub(super) fn flat(
        &mut self,
        env: &mut Env<'_>,
        lane: usize,
        address: u64,
        bytes: usize,
    ) -> Result<*mut u8, Bad> {
        match (address >> 32) as u32 {
            SHARED_APERTURE => env.shared(address & 0xffff_ffff, bytes),
            PRIVATE_APERTURE => self.private(lane, address & 0xffff_ffff, bytes),
            _ => env.host(address, bytes),
        }
    }
}

macro_rules! access {
    ($load:ident $store:ident $type:ident $atomic:ident) => {
        /// Reads a value, untorn if it is aligned.
        ///
        /// # Safety
        ///
        /// The bytes must be mapped.
        #[inline]
        pub(super) unsafe fn $load(from: *const u8) -> $type {
            if from.cast::<$type>().is_aligned() {
                // SAFETY: `# Safety` demands mapped bytes, they are aligned, and lanes access
                // memory by pointers alone, so no reference to them exists.
                unsafe { $atomic::from_ptr(from.cast_mut().cast()) }.load(Ordering::Acquire)
            } else {
                // SAFETY: `# Safety` demands mapped bytes; their alignment does not matter.
                unsafe { from.cast::<$type>().read_unaligned() }
            }
        }

        /// Writes a value, untorn if it is aligned.
        ///
        /// # Safety
        ///
        /// The bytes must be mapped.
        #[inline]
        pub(super) unsafe fn $store(to: *mut u8, value: $type) {
            if to.cast::<$type>().is_aligned() {
                // SAFETY: `# Safety` demands mapped bytes, they are aligned, and lanes access
                // memory by pointers alone, so no reference to them exists.
                unsafe { $atomic::from_ptr(to.cast()) }.store(value, Ordering::Release);
            } else {
                // SAFETY: `# Safety` demands mapped bytes; their alignment does not matter.
                unsafe { to.cast::<$type>().write_unaligned(value) }
            }
        }
    };
}

access!(load8 store8 u8 AtomicU8);
access!(load16 store16 u16 AtomicU16);
access!(load32 store32 u32 AtomicU32);
access!(load64 store64 u64 AtomicU64);

/// Changes 4 bytes as one step, and gives what was there.
pub(super) fn update32(at: *mut u8, change: impl Fn(u32) -> u32) -> Result<u32, Bad> {
    if !at.cast::<u32>().is_aligned() {
        return Err(Bad::Misaligned { address: at as u64, bytes: 4 });
    }
    // SAFETY: `at` came from a check that the bytes are mapped, and is aligned.
    let atomic = unsafe { AtomicU32::from_ptr(at.cast()) };
    let old = atomic.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(change(old)));
    Ok(old.unwrap_or_else(|old| old))
}

/// Changes 8 bytes as one step, and gives what was there.
pub(super) fn update64(at: *mut u8, change: impl Fn(u64) -> u64) -> Result<u64, Bad> {
    if !at.cast::<u64>().is_aligned() {
        return Err(Bad::Misaligned { address: at as u64, bytes: 8 });
    }
    // SAFETY: `at` came from a check that the bytes are mapped, and is aligned.
    let atomic = unsafe { AtomicU64::from_ptr(at.cast()) };
    let old = atomic.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(change(old)));
    Ok(old.unwrap_or_else(|old| old))
}
