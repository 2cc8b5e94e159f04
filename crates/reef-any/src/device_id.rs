//! Identity of an open device.

use std::sync::atomic::{AtomicU64, Ordering};

/// One open device. A device that is opened twice is two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceId(u64);

impl DeviceId {
    /// One that nothing else has.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
