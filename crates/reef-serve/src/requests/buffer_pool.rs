//! Large buffers that are reused, for long messages and the tensors decoded from them.
//!
//! The heap maps each large allocation separately (`malloc`), so a fresh one is zeroed page by page
//! while it is filled, and its release interrupts all processors. Four clients with 14 MiB of JSON
//! each raised the 99th percentile of real-time requests from 2.6 to 6.6 ms that way (16 cores,
//! 2026-11-23).

use axum::body::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// Smaller buffers are left to the heap, which reuses them itself: `MMAP_BYTES` in malloc.rs.
const MIN_POOLED_BYTES: usize = 1 << 20;

/// Free buffers. Their sizes are powers of two, so a reused one is less than twice as large as the
/// requested and charged size. Free buffers are charged to no principal.
#[derive(Debug)]
pub(crate) struct BufferPool {
    free: Mutex<Vec<Vec<u8>>>,
    /// Maximum number of bytes kept here.
    max: usize,
}

impl BufferPool {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::default(), max })
    }

    /// Returns an empty buffer with a capacity of `bytes`.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Buffer {
        if bytes < MIN_POOLED_BYTES {
            return Buffer { bytes: Vec::with_capacity(bytes), from: None };
        }
        let size = bytes.checked_next_power_of_two().unwrap_or(bytes);
        let found = {
            let mut free = self.free.lock();
            let at = free.iter().position(|buffer| (size..2 * size).contains(&buffer.capacity()));
            at.map(|at| free.swap_remove(at))
        };
        let bytes = found.unwrap_or_else(|| Vec::with_capacity(size));
        Buffer { bytes, from: Some(self.clone()) }
    }

    /// Keeps a buffer if there is room.
    fn put(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut free = self.free.lock();
        let kept: usize = free.iter().map(Vec::capacity).sum();
        if kept + buffer.capacity() <= self.max {
            free.push(buffer);
        } else {
            drop(free); // before the buffer is freed, which takes long
        }
    }
}

/// A buffer, which returns to its pool when it is dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    from: Option<Arc<BufferPool>>,
}

impl Buffer {
    /// Returns its content as immutable bytes.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(from) = self.from.take() {
            from.put(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffer_is_reused_and_small_one_is_not_pooled() {
        let pool = BufferPool::new(8 * MIN_POOLED_BYTES);
        let mut first = pool.take(3 * MIN_POOLED_BYTES);
        first.bytes.extend([1; 100]);
        let (place, bytes) = (first.bytes.as_ptr(), first.freeze());
        let part = bytes.slice(10..20);
        drop(bytes);
        assert_ne!(pool.take(3 * MIN_POOLED_BYTES).bytes.as_ptr(), place, "a part is there");
        drop(part);
        let again: Vec<_> = (0..2).map(|_| pool.take(4 * MIN_POOLED_BYTES)).collect();
        assert!(again.iter().any(|buffer| buffer.bytes.as_ptr() == place));
        assert!(again.iter().all(|buffer| buffer.bytes.is_empty()));
        drop(again);
        drop(pool.take(MIN_POOLED_BYTES - 1));
        assert_eq!(pool.free.lock().len(), 2, "of 4 MiB each");
    }

    #[test]
    fn pool_is_bounded_and_gives_no_oversized_buffer() {
        let pool = BufferPool::new(8 * MIN_POOLED_BYTES);
        drop([4, 4, 8].map(|mib| pool.take(mib * MIN_POOLED_BYTES)));
        let kept = || pool.free.lock().iter().map(Vec::capacity).sum::<usize>();
        assert_eq!(kept(), 8 * MIN_POOLED_BYTES);
        let small = pool.take(MIN_POOLED_BYTES + 1);
        assert!(
            small.bytes.capacity() < 4 * MIN_POOLED_BYTES,
            "of those there are only larger ones"
        );
        assert_eq!(kept(), 8 * MIN_POOLED_BYTES);
    }
}
