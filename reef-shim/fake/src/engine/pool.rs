//! A pool: memory that is taken in chunks, and kept for later allocations.

use super::device_memory::give_back;

/// The pool of the first device itself; the next devices' follow.
const POOL: usize = 0x9001;

/// A device's own pool.
pub(crate) fn own_pool(device: usize) -> usize {
    POOL + device
}

/// The driver takes memory for pools in multiples of this.
pub(super) const CHUNK: u64 = 32 << 20;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pool {
    /// Bytes that it has of the device, and those of them that are used.
    pub(crate) reserved: u64,
    pub(crate) used: u64,
    /// Bytes that it keeps when a call waits.
    pub(crate) threshold: u64,
    /// Of the host's memory.
    pub(crate) is_host: bool,
    /// Its handle is gone: it ends with its last allocation.
    pub(crate) is_destroyed: bool,
}

impl Pool {
    /// Gives back chunks that are not used, but for `keep` bytes.
    pub(super) fn shrink(&mut self, keep: u64) {
        let stays = self.used.next_multiple_of(CHUNK).max(keep).min(self.reserved);
        if !self.is_host {
            give_back(self.reserved - stays);
        }
        self.reserved = stays;
    }
}
