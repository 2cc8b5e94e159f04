//! Memory of operands, and errors that all kernels have in common.

use crate::memory::buffer::Buffer;
use reef_core::{Error, Result};
use std::ops::Range;

/// Start of a storage.
#[derive(Debug, Clone)]
pub(crate) struct OperandMemory {
    /// Holds the storage.
    pub buffer: Buffer,
    /// Its first byte, a multiple of 64.
    pub offset: usize,
}

impl OperandMemory {
    /// Checks that it holds a storage of `bytes` bytes, which only this device changes.
    pub(in crate::kernels) fn check(&self, bytes: usize) -> Result<()> {
        if !self.offset.is_multiple_of(64) {
            return Err(Error::invalid(
                "offset",
                format!("must be a multiple of 64, got {}", self.offset),
            ));
        }
        if self.buffer.is_adopted() {
            return Err(unsupported("operands in adopted host memory, which others may change"));
        }
        self.buffer.check_range(self.offset, bytes)
    }

    /// The addresses of its first `bytes` bytes.
    pub(in crate::kernels) fn addresses(&self, bytes: usize) -> Range<usize> {
        let start = self.buffer.as_ptr().addr().saturating_add(self.offset);
        start..start.saturating_add(bytes)
    }
}

/// Blocks fit a launch.
pub(in crate::kernels) fn grid(blocks: usize) -> Result<u32> {
    u32::try_from(blocks).map_err(|_| {
        Error::invalid(
            "blocks",
            format!("must be at most {} in one launch, got {blocks}", u32::MAX),
        )
    })
}

/// Error for an operation without a kernel.
pub(in crate::kernels) fn unsupported(what: impl Into<String>) -> Error {
    Error::Unsupported { backend: "cpu", what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_core::HostMemory;
    use std::ptr::NonNull;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn operands_lie_aligned_inside_of_memory_of_the_device() {
        let at = |offset| OperandMemory { buffer: Buffer::zeroed(256).expect("memory"), offset };
        assert_eq!(at(64).check(192), Ok(()));
        assert!(matches!(at(32).check(4), Err(Error::Invalid(_))), "where no vector starts");
        assert!(at(64).check(193).is_err(), "beyond the end");
        let theirs = Arc::new(AtomicU64::new(0));
        let start = NonNull::new(theirs.as_ptr().cast()).expect("an address");
        // SAFETY: the atomic's eight bytes live as long as the last argument keeps them.
        let memory = unsafe { HostMemory::new(start, 8, theirs) };
        let adopted = OperandMemory { buffer: Buffer::adopted(memory), offset: 0 };
        assert!(matches!(adopted.check(4), Err(Error::Unsupported { .. })), "others may change it");
    }
}
