//! Zeroed memory: small pieces from the allocator, large ones from the system, in huge pages where
//! it has some.
//!
//! Kernels walk down columns of weights, from page to page with each step; with pages of 4 KiB the
//! processor looks up nearly each of them anew.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Cache lines, and the widest vector registers.
pub(crate) const ALIGN: usize = 64;
/// Bytes from which memory comes from the system: two huge pages of most machines.
const LARGE: usize = 4 << 20;

/// Memory that is freed when this is dropped, aligned to [`ALIGN`].
#[derive(Debug)]
pub(crate) struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

impl Pages {
    /// At least `bytes` bytes, rounded up to [`ALIGN`]; `None` if there is no such memory.
    pub(crate) fn zeroed(bytes: usize) -> Option<Self> {
        let whole = bytes.max(1).checked_next_multiple_of(ALIGN)?;
        let layout = Layout::from_size_align(whole, ALIGN).ok()?;
        let start = if is_large(layout) {
            system::zeroed(whole)?
        } else {
            // SAFETY: the layout's size is not zero.
            NonNull::new(unsafe { alloc_zeroed(layout) })?
        };
        Some(Self { start, layout })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if is_large(self.layout) {
            // SAFETY: it came from there with this size, and nothing uses it any more.
            unsafe { system::free(self.start, self.layout.size()) }
        } else {
            // SAFETY: it came from `alloc_zeroed` with this layout and is freed once.
            unsafe { dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}

fn is_large(layout: Layout) -> bool {
    cfg!(target_os = "linux") && layout.size() >= LARGE
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::ptr::{NonNull, null_mut};

    pub(super) fn zeroed(bytes: usize) -> Option<NonNull<u8>> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of its own, wherever the system likes.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, rights, MapFlags::PRIVATE) }.ok()?;
        // SAFETY: the range was just mapped. Without huge pages it stays as it is.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
        NonNull::new(start.cast())
    }

    /// # Safety
    ///
    /// `start` came from [`zeroed`] of `bytes` bytes, and nothing uses them any more.
    pub(super) unsafe fn free(start: NonNull<u8>, bytes: usize) {
        // SAFETY: `start` came from `zeroed` of `bytes` bytes, and nothing uses them any more:
        // `free` demands it.
        let freed = unsafe { munmap(start.as_ptr().cast(), bytes) };
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::ptr::NonNull;

    pub(super) fn zeroed(_: usize) -> Option<NonNull<u8>> {
        None
    }

    /// # Safety
    ///
    /// Never called: [`zeroed`] gives nothing.
    pub(super) unsafe fn free(_: NonNull<u8>, _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "maps memory")]
    fn small_and_large_pieces_are_zeroed_aligned_and_writable() {
        for bytes in [0, 1, 65, LARGE - 64, LARGE - 63, LARGE + 1] {
            let pages = Pages::zeroed(bytes).expect("memory");
            let start = pages.start().as_ptr();
            assert!(start.addr().is_multiple_of(ALIGN));
            let last = start.wrapping_add(bytes.next_multiple_of(ALIGN).max(ALIGN) - 1);
            for at in [start, last] {
                // SAFETY: both are inside of memory that is this test's.
                unsafe {
                    assert_eq!(at.read(), 0);
                    at.write(7);
                }
            }
        }
        assert!(
            Pages::zeroed(usize::MAX).is_none() && Pages::zeroed(isize::MAX as usize).is_none()
        );
    }
}
