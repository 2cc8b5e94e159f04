//! Memory of the software device: host memory with bounds, ours or adopted.
//!
//! Kernels on several units write disjoint parts of a buffer at the same time, so a buffer hands
//! them a raw pointer. Kernels of networks [borrow](crate::memory::borrow) what they touch; for
//! other kernels the launch's contract ([`Launch::new`](reef_core::Launch::new)) says which parts
//! they may write. Copies, fills, reads and writes borrow as well, and go by [`words`], which may
//! race with other processes, and only inside the buffer.

use crate::memory::borrow::{Access, Borrows, HostBorrow};
use crate::memory::pages::Pages;
use reef_core::{Error, HostMemory, Result, words};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Zeroed memory, aligned to 64 bytes; freed when the last clone is dropped. Or host memory of
/// others, as it is, kept until then.
///
/// ```
/// use reef_core::Device;
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let buffer = device.alloc(64)?;
/// device.write(&buffer, 60, b"last")?;
/// let mut bytes = [0; 8];
/// device.read(&buffer, 56, &mut bytes)?;
/// assert_eq!(&bytes, b"\0\0\0\0last");
/// assert!(device.write(&buffer, 61, b"last").is_err());
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Buffer(Arc<Allocation>);

#[derive(Debug)]
struct Allocation {
    start: NonNull<u8>,
    owner: Owner,
    bytes: usize,
    borrows: Borrows,
}

/// Keeps the memory.
#[derive(Debug)]
enum Owner {
    Ours(#[expect(dead_code, reason = "freed with it")] Pages),
    Other(HostMemory),
}

// SAFETY: the allocation is plain memory, which any thread may free. It is reached as atomic words,
// or by kernels, which borrow it or touch what `Launch::new` allows.
unsafe impl Send for Allocation {}
// SAFETY: methods take `&self`. They reach the memory as atomic words, or give kernels a raw
// pointer: these borrow it or touch what `Launch::new` allows.
unsafe impl Sync for Allocation {}

impl Buffer {
    pub(crate) fn zeroed(bytes: usize) -> Result<Self> {
        let oom = || Error::OutOfMemory { backend: "cpu", asked: bytes };
        let pages = Pages::zeroed(bytes).ok_or_else(oom)?;
        let (start, owner) = (pages.start(), Owner::Ours(pages));
        Ok(Self(Arc::new(Allocation { start, owner, bytes, borrows: Borrows::default() })))
    }

    pub(crate) fn adopted(memory: HostMemory) -> Self {
        let (start, bytes) = (memory.as_ptr(), memory.bytes());
        let owner = Owner::Other(memory);
        Self(Arc::new(Allocation { start, owner, bytes, borrows: Borrows::default() }))
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The first byte. Valid for [`bytes`](Self::bytes) bytes, for as long as a clone lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.start.as_ptr()
    }

    pub(crate) fn borrows(&self) -> &Borrows {
        &self.0.borrows
    }

    /// Returns whether it is memory of others, which they may change at any time.
    pub(crate) fn is_adopted(&self) -> bool {
        matches!(self.0.owner, Owner::Other(_))
    }

    /// Copies `data` to `offset`, once no block that runs uses the buffer.
    pub(crate) fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.check_range(offset, data.len())?;
        let _borrow = HostBorrow::wait(self.borrows(), Access::Write);
        words::write(self.words(), offset, data);
        Ok(())
    }

    /// Copies from `offset` on into `data`, once no block that runs writes the buffer.
    pub(crate) fn read(&self, offset: usize, data: &mut [u8]) -> Result<()> {
        self.check_range(offset, data.len())?;
        let _borrow = HostBorrow::wait(self.borrows(), Access::Read);
        words::read(self.words(), offset, data);
        Ok(())
    }

    /// Its words, the last of which may reach over its end.
    pub(crate) fn words(&self) -> &[AtomicU32] {
        match &self.0.owner {
            Owner::Other(memory) => memory.words(),
            // SAFETY: whole words were allocated, zeroed and aligned, and live as long as `self`.
            // Kernels may touch them without words: callers have borrowed the buffer, and
            // `Launch::new` answers for all other kernels.
            Owner::Ours(_) => unsafe {
                slice::from_raw_parts(self.as_ptr().cast(), words::words_of(self.bytes()))
            },
        }
    }

    /// Checks that `bytes` bytes from `offset` on are inside.
    ///
    /// # Errors
    ///
    /// `Invalid` if they are not.
    pub(crate) fn check_range(&self, offset: usize, bytes: usize) -> Result<()> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes() => Ok(()),
            _ => {
                let have = self.bytes();
                Err(Error::invalid(
                    "range",
                    format!("must be inside a buffer of {have} bytes, got {bytes} at {offset}"),
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_outside_is_an_error() {
        let buffer = Buffer::zeroed(100).unwrap();
        assert!(buffer.check_range(36, 64).is_ok());
        assert!(buffer.check_range(100, 0).is_ok());
        assert!(buffer.check_range(37, 64).is_err());
        assert!(buffer.check_range(usize::MAX, 2).is_err(), "the sum overflows");
    }

    #[test]
    fn is_aligned_and_may_be_empty() {
        assert_eq!(Buffer::zeroed(100).unwrap().as_ptr() as usize % 64, 0);
        assert_eq!(Buffer::zeroed(0).unwrap().bytes(), 0);
    }

    #[test]
    fn memory_of_others_is_bounded_and_kept_but_not_freed() {
        let other = Arc::new(std::sync::atomic::AtomicU64::new(7));
        let start = NonNull::new(other.as_ptr().cast()).unwrap();
        // SAFETY: the atomic's eight bytes live as long as the second argument keeps them.
        let memory = unsafe { HostMemory::new(start, 8, other.clone()) };
        let buffer = Buffer::adopted(memory);
        assert!(buffer.check_range(0, 8).is_ok() && buffer.check_range(1, 8).is_err());
        assert_eq!(Arc::strong_count(&other), 2);
        drop(buffer);
        assert_eq!(Arc::into_inner(other).unwrap().into_inner(), 7);
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        assert!(matches!(Buffer::zeroed(usize::MAX), Err(Error::OutOfMemory { .. })));
    }
}
