//! The ring that the host writes packets to, and the words that say how far each side is.

use std::sync::atomic::AtomicU64;

/// A queue's memory. The creator of the queue keeps it until the queue is destroyed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ring {
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    /// Written by the host.
    pub(crate) write: &'static AtomicU64,
    /// Written by the device.
    pub(crate) read: &'static AtomicU64,
}

impl Ring {
    /// `None` if an address is 0 or not aligned, or the size not a power of two.
    pub(crate) fn new(base: u64, bytes: u64, write: u64, read: u64) -> Option<Self> {
        let word = |at: u64| {
            // SAFETY: not null, aligned, and the creator of the queue keeps the word until it has
            // destroyed the queue, after which this is not used.
            (at != 0 && at.is_multiple_of(8))
                .then(|| unsafe { AtomicU64::from_ptr(at as *mut u64) })
        };
        let good = base != 0 && base.is_multiple_of(64) && bytes >= 64 && bytes.is_power_of_two();
        good.then_some(())?;
        Some(Self { base, bytes, write: word(write)?, read: word(read)? })
    }
}
